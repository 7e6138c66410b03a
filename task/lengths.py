"""How far a trained model is from the one that training began with."""

import math

import torch
from torch import Tensor

from task.methods.base import Tensors


def length(weights: Tensors, extra: Tensors, start: Tensors) -> float:
    """The Euclidean length of all that is sent, as one vector.

    Args:
        weights: a trained model; of each parameter and statistic the difference counts.
        extra: what the method sends beside it.
        start: what training began with.
    """
    moved = (
        value.double() - start[name].double()
        for name, value in weights.items()
        if value.is_floating_point()
    )
    return math.hypot(*map(norm, moved), *map(norm, extra.values()))


def shorten(
    weights: Tensors, extra: Tensors, start: Tensors, share: float
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """What is sent, at a share of its `length`; integers stay."""
    near = {
        name: start[name].lerp(value, share) if value.is_floating_point() else value
        for name, value in weights.items()
    }
    return near, {name: value * share for name, value in extra.items()}


def norm(value: Tensor) -> float:
    """The Euclidean length of a tensor's numbers."""
    return float(torch.linalg.vector_norm(value.double()))
