"""Weights on their way between the CPU and a GPU: one copy for each type of number.

A copy between a GPU and ordinary memory waits for the GPU, and a model has a hundred tensors. So
they are joined in one block of pinned memory, which is copied at once.
"""

import torch
from torch import Tensor

from task.errors import diverged
from task.tensors import Tensors, is_finite


def to_device(values: Tensors, device: torch.device) -> Tensors:
    """Return tensors of the CPU on a device; without a copy if that is the CPU, too."""
    if device.type != "cuda":
        return {name: value.to(device) for name, value in values.items()}
    moved: dict[str, Tensor] = {}
    for kind, names in by_type(values).items():
        parts = [values[name].reshape(-1) for name in names]
        block = torch.empty(sum(map(len, parts)), dtype=kind, pin_memory=True)
        torch.cat(parts, out=block)
        there = block.to(device, non_blocking=True)
        moved |= separated(there, {name: values[name] for name in names})
    return moved


def to_cpu(values: Tensors) -> dict[str, Tensor]:
    """Return contiguous copies on the CPU."""
    on_gpu = {name: value for name, value in values.items() if value.is_cuda}
    copies: dict[str, Tensor] = {}
    for kind, names in by_type(on_gpu).items():
        joined = torch.cat([values[name].reshape(-1) for name in names])
        block = torch.empty(len(joined), dtype=kind, pin_memory=True)
        block.copy_(joined)
        parts = separated(block, {name: values[name] for name in names})
        copies |= {name: part.clone() for name, part in parts.items()}
    return {
        name: copies[name] if name in copies else value.to("cpu", copy=True).contiguous()
        for name, value in values.items()
    }


def by_type(values: Tensors) -> dict[torch.dtype, list[str]]:
    """Return the names of the tensors of each type."""
    names: dict[torch.dtype, list[str]] = {}
    for name, value in values.items():
        names.setdefault(value.dtype, []).append(name)
    return names


def separated(block: Tensor, shapes: Tensors) -> dict[str, Tensor]:
    """Return parts of a block, one after another, with the names and shapes of other tensors.

    Args:
        block: [n].
        shapes: tensors of n elements together.
    """
    parts = block.split([value.numel() for value in shapes.values()])
    return {
        name: part.view(value.shape)
        for (name, value), part in zip(shapes.items(), parts, strict=True)
    }


def copy_to_cpu(kind: str, values: Tensors) -> dict[str, Tensor]:
    """Return contiguous copies on the CPU.

    Args:
        kind: what the tensors are, for the error message.
        values: by name.

    Raises:
        TrainingError: one of them holds NaN or infinity.
    """
    copies = to_cpu(values)
    for name, value in copies.items():
        if not is_finite(value):
            raise diverged(f"{kind} {name} is no longer finite")
    return copies
