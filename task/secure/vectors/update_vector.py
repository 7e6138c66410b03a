"""An update as one vector of 64-bit integers, which can be masked and added."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from task.config import RoundingRule
from task.errors import diverged
from task.secure.primitives.hashing import digest
from task.secure.primitives.mask_stream import Vector
from task.secure.vectors.rounded_sum import RoundedSum
from task.secure.vectors.rounding import UNIT, rounded_at_random
from task.tensors import Tensors

MAX_LOSS = 2.0**16  # larger mean losses count as this


class UpdateVector:
    """The order in which an update's numbers and its losses stand in a vector.

    The floating-point tensors come first, by name, as `RoundedSum` has them. The means of the loss
    terms follow, weighted like the update and rounded at random. Integers are no part of it.

    Args:
        start: the global weights before the round.
        terms: the names of the loss terms that clients may report.
        rule: how the update is rounded.
    """

    def __init__(self, start: Tensors, terms: Sequence[str], rule: RoundingRule) -> None:
        self._shapes = {
            name: value.shape for name, value in sorted(start.items()) if value.is_floating_point()
        }
        self._terms = list(terms)
        self._sum = RoundedSum({name: start[name] for name in self._shapes}, rule)
        self.length = sum(map(math.prod, self._shapes.values())) + len(self._terms)

    def fixed(self, weights: Tensors, weight: float, key: bytes) -> dict[str, Tensor]:
        """Return weight * update in units, int64, by name. Noise is added to this.

        Args:
            weights: a trained model.
            weight: its weight, 1 for the largest client.
            key: 32 bytes that the rounding is drawn from.

        Raises:
            TrainingError: a number is too large or not finite.
        """
        return self._sum.to_fixed_point({name: weights[name] for name in self._shapes}, weight, key)

    def pack(
        self, parts: Tensors, losses: Mapping[str, float], weight: float, key: bytes
    ) -> Vector:
        """Return an update and its losses as a vector.

        Args:
            parts: the update in units, by name.
            losses: the mean of each of its loss terms; a missing one counts as 0.
            weight: its weight.
            key: what `fixed` got; the losses are rounded with a key that is derived from it.

        Raises:
            TrainingError: a loss is NaN.
        """
        vector = np.empty(self.length, np.int64)
        start = 0
        for name in self._shapes:
            flat = parts[name].numpy().reshape(-1)
            vector[start : start + len(flat)] = flat
            start += len(flat)
        means = np.array([bounded(losses.get(term, 0.0)) for term in self._terms])
        vector[start:] = rounded_at_random(means, weight, UNIT, digest("losses", key))
        return vector

    def unpack(self, vector: Vector, weight: float) -> tuple[dict[str, Tensor], dict[str, float]]:
        """Return the totals of a `RoundedSum`, and the mean of each loss term.

        Args:
            vector: the sum of packed updates.
            weight: the sum of their weights, above 0.
        """
        totals, start = {}, 0
        for name, shape in self._shapes.items():
            stop = start + shape.numel()
            totals[name] = torch.from_numpy(vector[start:stop]).reshape(shape)
            start = stop
        means = vector[start:].astype(np.float64) * UNIT / weight
        return totals, dict(zip(self._terms, means.tolist(), strict=True))


def has_counters(weights: Tensors) -> bool:
    """Return whether a model has integer tensors, such as batch norm's counters."""
    return not all(value.is_floating_point() for value in weights.values())


def bounded(loss: float) -> float:
    """Return a mean loss within the bounds of a masked sum.

    Raises:
        TrainingError: it is NaN.
    """
    if math.isnan(loss):
        raise diverged("a loss is NaN")
    return max(-MAX_LOSS, min(MAX_LOSS, loss))
