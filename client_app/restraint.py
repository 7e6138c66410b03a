"""How far a site's model may be from the one it was sent, whatever its training did."""

import math
from dataclasses import replace

import torch
from torch import Tensor

from task.methods.base import Tensors
from task.training import LocalResult


def shortened(result: LocalResult, start: Tensors, most: float) -> LocalResult:
    """A result whose distance from the start is at most `most`; a shorter one stays as it is.

    The distance is the Euclidean length of everything that is sent, as one vector: each parameter
    and statistic minus what was received, and what the method sends beside them.
    """
    moved = {
        name: value.double() - start[name].double()
        for name, value in result.weights.items()
        if value.is_floating_point()
    }
    length = math.hypot(*(norm(value) for value in [*moved.values(), *result.extra.values()]))
    if length <= most:
        return result
    share = most / length
    near = {
        name: (start[name].double() + share * value).to(start[name].dtype)
        for name, value in moved.items()
    }
    extra = {name: value * share for name, value in result.extra.items()}
    return replace(result, weights={**result.weights, **near}, extra=extra)


def norm(value: Tensor) -> float:
    """The Euclidean length of a tensor's numbers."""
    return float(torch.linalg.vector_norm(value.double()))
