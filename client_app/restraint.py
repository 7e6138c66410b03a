"""How far a client's model may be from the one it was sent, whatever its training did."""

import math
from dataclasses import replace

from task.lengths import length, shorten
from task.methods.base import Tensors
from task.training import LocalResult


def shortened(result: LocalResult, start: Tensors, most: float) -> LocalResult:
    """A result whose `length` is at most `most`; a shorter one stays as it is."""
    if most == math.inf:
        return result
    found = length(result.weights, result.extra, start)
    if found <= most:
        return result
    weights, extra = shorten(result.weights, result.extra, start, most / found)
    return replace(result, weights=weights, extra=extra)
