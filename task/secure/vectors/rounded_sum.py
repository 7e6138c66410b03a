"""Weighted sums of updates that are rounded, so that masks can hide the single ones."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from task.config import RoundingRule
from task.errors import ProtocolError, diverged
from task.exact_sum import IntegerSum
from task.secure.primitives.mask_stream import CHUNK
from task.secure.vectors.rounding import (
    RULES,
    UNIT,
    Rounding,
    ulps_of,
)
from task.tensors import Tensors

LARGEST = 2.0**20  # of a model's numbers, before and after training


class RoundedSum(IntegerSum):
    """The sum over clients of weight * (model - start), in units of 2^-20, each part rounded.

    The weight of the largest client is 1. Integers, such as batch norm's counters, keep the value
    that they have at the start, and are not sent.

    Args:
        start: the global weights before the round.
        rule: how each part is rounded.
    """

    most = 2**62  # a thousand participants cannot reach it

    def __init__(self, start: Tensors, rule: RoundingRule) -> None:
        super().__init__(start)
        self._start, self._rule = start, rule

    def to_fixed_point(self, values: Tensors, share: float, key: bytes) -> dict[str, Tensor]:
        rounding = RULES[self._rule](key)
        return {
            name: self._rounded(name, values[name], share, rounding)
            if self._floating[name]
            else self._start[name].long()
            for name in sorted(values)
        }

    def mean(self, share: float) -> dict[str, Tensor]:
        integers = {n: v.long() for n, v in self._start.items() if not self._floating[n]}
        means = {
            name: self._start[name].double() + total.double() * (UNIT / share)
            for name, total in self.totals.items()
            if self._floating[name]
        }
        return {**integers, **means}

    def _rounded(self, name: str, value: Tensor, share: float, rounding: Rounding) -> Tensor:
        if value.numel() and not magnitude(value) < LARGEST:
            raise diverged(f"{name} has numbers beyond {LARGEST:,.0f}")
        result = np.empty(value.numel(), np.int64)
        precision = torch.finfo(value.dtype).eps / UNIT
        flat, origin = flattened(value), flattened(self._start[name])
        for first in range(0, len(flat), CHUNK):
            part = slice(first, first + CHUNK)
            starts = ulps_of(origin[part], precision)
            ulps = np.maximum(starts, ulps_of(flat[part], precision))
            moved = np.subtract(flat[part], origin[part], dtype=np.float64)
            moved *= share / UNIT
            result[part] = rounding(moved, starts, ulps)
        return torch.from_numpy(result).reshape(value.shape)


def check_numbers(weights: Tensors) -> None:
    """Refuse global weights that this number format was not made for.

    Raises:
        ProtocolError: they have a number that is not finite or too large.
    """
    for name, value in weights.items():
        if value.is_floating_point() and value.numel() and not magnitude(value) < LARGEST:
            raise ProtocolError(f"the model has numbers of {LARGEST:,.0f} or more in {name}")


def flattened(value: Tensor) -> NDArray[Any]:
    """Return a tensor's numbers in the order of its indices, without a copy if possible."""
    return value.detach().contiguous().reshape(-1).numpy()


def magnitude(value: Tensor) -> float:
    """Return the largest magnitude of a tensor's numbers; NaN if one is NaN."""
    least, most = value.aminmax()
    return max(-float(least), float(most))
