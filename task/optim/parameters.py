"""The parameters that local training changes: by name, copied, with gradients, in a teacher."""

import copy
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

CLASSIFIER = "classifier."  # begins the names of the last layer's parameters


def trained_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """Return the parameters that local training changes, by name; no buffers, nothing frozen."""
    return {name: value for name, value in model.named_parameters() if value.requires_grad}


@contextmanager
def without_gradients(parameters: Collection[nn.Parameter]) -> Iterator[None]:
    """Compute no gradients of these trained parameters inside the block."""
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    for parameter in trained:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in trained:
            parameter.requires_grad_(True)


def snapshot(model: nn.Module) -> dict[str, Tensor]:
    """Return a copy of the trained parameters, by name."""
    return {name: value.detach().clone() for name, value in trained_parameters(model).items()}


def zeros(values: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return zeros in the names and shapes of `values`."""
    return {name: torch.zeros_like(value) for name, value in values.items()}


def gradients_of(parameters: list[Tensor]) -> list[Tensor]:
    """Return the parameters' gradients, to be changed in place; a missing one is set to 0.

    A parameter has no gradient if the loss does not depend on it, as in a dropped block. With a
    gradient of 0 it takes part in the next optimizer step.
    """
    gradients = []
    for parameter in parameters:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        gradients.append(parameter.grad)
    return gradients


def teacher(model: nn.Module, kept: nn.Module | None = None) -> nn.Module:
    """Return a copy in eval mode, without gradients; its batch-norm statistics stay fixed.

    Args:
        model: whose weights it has.
        kept: an earlier copy, which is loaded and returned, in the mode that it has.
    """
    if kept is None:
        return copy.deepcopy(model).eval().requires_grad_(False)
    kept.load_state_dict(model.state_dict())
    return kept
