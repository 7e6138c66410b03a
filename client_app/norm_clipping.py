"""Clips a client's update to a largest norm before it is sent."""

import math
from dataclasses import replace

from task.methods.base import Tensors
from task.optim.update_norm import scale_update, update_norm
from task.training.loop import LocalResult


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
