"""The L2 norm of a client's update, and an update scaled down."""

import math
from dataclasses import replace

import torch
from torch import Tensor

from task.tensors import Tensors
from task.training.loop import LocalResult


def update_norm(weights: Tensors, extra: Tensors, start: Tensors) -> float:
    """Return the L2 norm of everything that a client sends, taken as one vector.

    The vector holds ``weights - start`` for each floating-point tensor, then `extra`. Integers,
    such as batch norm's counters, are left out. Computed in float64.

    Args:
        weights: the trained model, or a part of it, by name.
        extra: what the method sends in addition, by name.
        start: the weights that training started from, with at least the names of `weights`.
    """
    differences = (
        value.double() - start[name].double()
        for name, value in weights.items()
        if value.is_floating_point()
    )
    return math.hypot(*map(l2_norm, differences), *map(l2_norm, extra.values()))


def scale_update(
    weights: Tensors, extra: Tensors, start: Tensors, scale: float
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return `weights` and `extra` with the update multiplied by `scale`.

    Floating-point weights become ``start + scale * (weights - start)``; integers stay unchanged.

    Args:
        weights: the trained model, by name.
        extra: what the method sends in addition, by name.
        start: the weights that training started from, in the names and shapes of `weights`.
        scale: in [0, 1].
    """
    scaled = {
        name: start[name].lerp(value, scale) if value.is_floating_point() else value
        for name, value in weights.items()
    }
    return scaled, {name: value * scale for name, value in extra.items()}


def l2_norm(value: Tensor) -> float:
    """Return the L2 norm of all numbers in a tensor, computed in float64."""
    return float(torch.linalg.vector_norm(value.double()))


def clip_result(result: LocalResult, start: Tensors, max_norm: float) -> LocalResult:
    """Return a result whose update norm is at most `max_norm`; a smaller one is unchanged.

    Args:
        result: a client's training.
        start: the weights that it began with.
        max_norm: infinity for no bound.
    """
    if max_norm == math.inf:
        return result
    norm = update_norm(result.weights, result.extra, start)
    if norm <= max_norm:
        return result
    weights, extra = scale_update(result.weights, result.extra, start, max_norm / norm)
    return replace(result, weights=weights, extra=extra)
