"""A network at a fraction of its width: the same weights, cut to their first channels.

Source: Yu et al., "Slimmable Neural Networks", ICLR 2019. No second network is built: gradients
reach the full weights, and `torch.func.functional_call` runs the network with the cut ones.
"""

from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor, nn

from task.models.layers.norm import GROUPS


def narrow(
    module: nn.Module,
    width: float,
    whole_inputs: Collection[str] = (),
    whole_outputs: Collection[str] = (),
) -> dict[str, Tensor]:
    """Return a module's state for `functional_call`, each layer cut to a share of its channels.

    Batch-norm statistics are copied, so that a narrow pass does not change the module's own. In
    training mode the narrow pass normalises by its batch.

    Args:
        module: with weights of shape [outputs, inputs, ...].
        width: the share of channels to keep, in (0, 1]; rounded down to at least one channel.
        whole_inputs: names of parameters that keep every input, since their input is not cut.
        whole_outputs: names of parameters that keep every output.
    """
    grouped = any(isinstance(part, nn.GroupNorm) for part in module.modules())
    step = GROUPS if grouped else 1
    state: dict[str, Tensor] = {}
    filters: dict[str, Tensor] = {}
    for name, whole in module.named_parameters():
        cut = whole[:] if name in whole_outputs else whole[: kept(len(whole), width, step)]
        if cut.dim() > 1 and name not in whole_inputs:
            cut = cut[:, : kept(cut.shape[1], width, step)]
        state[name] = cut
        if cut.dim() > 2 and cut.shape != whole.shape:
            filters[name] = whole
    sizes = [state[name].shape for name in filters]
    state.update(zip(filters, Cut.apply(sizes, *filters.values()), strict=True))
    for name, value in module.named_buffers():
        state[name] = (value[: kept(len(value), width, step)] if value.dim() else value).clone()
    return state


def kept(channels: int, width: float, step: int) -> int:
    """Return the number of channels that a width keeps: a multiple of `step`, at least `step`."""
    return max(step, int(channels * width / step + 1e-9) * step)


class Cut(torch.autograd.Function):
    """Contiguous copies of the first channels of convolutions' weights.

    Of a view, each convolution would make such a copy twice, for its forward and its backward pass.
    """

    @staticmethod
    def forward(ctx: Any, sizes: list[torch.Size], *wholes: Tensor) -> tuple[Tensor, ...]:
        """Return a copy of the first entries of each weight, in the given size."""
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*wholes)
        cuts = []
        for size, whole in zip(sizes, wholes, strict=True):
            last = whole.dim() == 4 and whole.is_contiguous(memory_format=torch.channels_last)
            layout = torch.channels_last if last else torch.contiguous_format
            cuts.append(whole[: size[0], : size[1]].clone(memory_format=layout))
        return tuple(cuts)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        """Return the gradients of the whole weights, 0 outside the copies."""
        pairs = zip(gradients, ctx.saved_tensors, strict=True)
        return None, *(None if cut is None else widened(cut, whole) for cut, whole in pairs)


def widened(cut: Tensor, whole: Tensor) -> Tensor:
    """Return a gradient of the first entries in the shape of the whole weight, else 0."""
    outputs, inputs = cut.shape[:2]
    full = torch.empty_like(whole)
    full[:outputs, :inputs] = cut
    full[:outputs, inputs:] = 0
    full[outputs:] = 0
    return full
