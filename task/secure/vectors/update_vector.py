"""An update as one vector of 64-bit integers, which can be masked and added."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from task.errors import diverged
from task.exact_sum import ExactSum
from task.methods.base import Tensors
from task.secure.primitives.mask_stream import Vector

LOSS_UNIT = 2.0**-32
VECTOR_ITEM_BYTES = 8
MAX_LOSS = 2.0**16  # larger mean losses count as this


class UpdateVector:
    """The order in which an update's numbers and its losses stand in a vector.

    The floating-point tensors come first, by name, in the fixed point of `task.exact_sum.ExactSum`.
    The means of the loss terms follow, weighted like the update. Integers are no part of it.

    Args:
        start: the global weights before the round.
        terms: the names of the loss terms that clients may report.
    """

    def __init__(self, start: Tensors, terms: Sequence[str]) -> None:
        self._start = start
        self._names = sorted(name for name in start if start[name].is_floating_point())
        self._terms = list(terms)
        self._sum = ExactSum(start)
        self.length = sum(start[name].numel() for name in self._names) + len(self._terms)

    def fixed(self, weights: Tensors, share: float) -> dict[str, Tensor]:
        """Return share * update in fixed point, int64, by name. Noise is added to this.

        Args:
            weights: a trained model.
            share: its weight in the mean.

        Raises:
            TrainingError: a number is too large or not finite.
        """
        return self._sum.to_fixed_point({name: weights[name] for name in self._names}, share)

    @property
    def units(self) -> dict[str, float]:
        """The value of one unit of each tensor in fixed point, by name."""
        return self._sum.units()

    def pack(self, parts: Tensors, losses: Mapping[str, float], share: float) -> Vector:
        """Return an update and its losses as a vector.

        Args:
            parts: the update in fixed point, by name.
            losses: the mean of each of its loss terms; a missing one counts as 0.
            share: its weight in the mean.

        Raises:
            TrainingError: a loss is NaN.
        """
        vector = np.empty(self.length, np.int64)
        start = 0
        for name in self._names:
            flat = parts[name].numpy().reshape(-1)
            vector[start : start + len(flat)] = flat
            start += len(flat)
        vector[start:] = [in_units(losses.get(term, 0.0), share) for term in self._terms]
        return vector

    def unpack(self, vector: Vector, share: float) -> tuple[dict[str, Tensor], dict[str, float]]:
        """Return the totals of an `ExactSum`, and the mean of each loss term.

        Args:
            vector: the sum of packed updates.
            share: the sum of their shares, above 0.
        """
        totals, start = {}, 0
        for name in self._names:
            shape = self._start[name].shape
            stop = start + shape.numel()
            totals[name] = torch.from_numpy(vector[start:stop]).reshape(shape)
            start = stop
        means = vector[start:].astype(np.float64) * LOSS_UNIT / share
        return totals, dict(zip(self._terms, means.tolist(), strict=True))


def counters(weights: Tensors) -> dict[str, Tensor]:
    """Return the integer tensors of a model, such as batch norm's counters, as int64."""
    return {n: value.long() for n, value in weights.items() if not value.is_floating_point()}


def in_units(loss: float, share: float) -> int:
    """Return share * loss in fixed point.

    Raises:
        TrainingError: it is NaN.
    """
    if math.isnan(loss):
        raise diverged("a loss is NaN")
    return round(max(-MAX_LOSS, min(MAX_LOSS, loss)) * share / LOSS_UNIT)
