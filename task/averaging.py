"""Weighted sums of models whose bits do not depend on who was added first, or where."""

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from task.errors import TrainingError
from task.methods.base import Tensors

FRACTION_BITS, GROWTH_BITS = 46, 16


class ExactSum:
    """The sum over clients of share * model, in fixed point.

    Sums of floats depend on their order, sums of integers do not. So workers can add up their own
    clients, whichever these are, and the server the workers: a round's memory and messages do not
    grow with its participants, and the same seed gives the same bits with any number of workers.

    A tensor's unit is 2^-46 of the largest number in it at the start of the round, or of 1 if that
    is larger: finer than float32 wherever it matters. In return no number may be beyond 2^16 times
    that at the round's end. Integers, such as batch norm's counters, are not added: the largest
    stays.

    Args:
        start: what every model was before the round; the same wherever a part is added up.
    """

    def __init__(self, start: Tensors) -> None:
        self._exponents = {
            name: exponent(value) if value.is_floating_point() else None
            for name, value in start.items()
        }
        self.totals: dict[str, Tensor] = {}

    def part(self, values: Tensors, share: float) -> dict[str, Tensor]:
        """A client's model as it is to be added, int64.

        Args:
            values: in the names and shapes of the start.
            share: its part of the whole; all parts together are 1 at most.

        Raises:
            TrainingError: a number is too large, or is none.
        """
        return {name: self._fixed(name, value, share) for name, value in values.items()}

    def add(self, totals: Tensors) -> None:
        """Add a client's `part`, or the `totals` of several from the same start."""
        for name, value in totals.items():
            if name not in self.totals:
                self.totals[name] = value.clone()
            elif self._exponents[name] is None:
                torch.maximum(self.totals[name], value, out=self.totals[name])
            else:
                self.totals[name].add_(value)

    def check(self, totals: Tensors) -> None:
        """Refuse the `totals` of another that no models can have added up to.

        Raises:
            TrainingError: a number is too large.
        """
        limit = 2 ** (FRACTION_BITS + GROWTH_BITS)  # of all shares together
        for name, value in totals.items():
            if self._exponents[name] is not None and value.numel():
                least, most = value.aminmax()
                if not -limit <= int(least) <= int(most) <= limit:
                    raise TrainingError(f"{name} in its sum is larger than any models give")

    def mean(self, share: float) -> dict[str, Tensor]:
        """The weighted mean, float64, and the largest of integers.

        Args:
            share: the sum of the shares that were added, above 0.
        """
        return {
            name: value
            if (power := self._exponents[name]) is None
            else value.double() * 2.0 ** (power - FRACTION_BITS) / share
            for name, value in self.totals.items()
        }

    def _fixed(self, name: str, value: Tensor, share: float) -> Tensor:
        power = self._exponents[name]
        if power is None:
            return value.long()
        units = value.to(torch.float64, copy=True).mul_(2.0 ** (FRACTION_BITS - power))
        least, most = units.aminmax() if units.numel() else (0, 0)
        limit = 2.0 ** (FRACTION_BITS + GROWTH_BITS)
        if not (-limit < float(least) and float(most) < limit):
            limit = 2.0 ** (power + GROWTH_BITS)
            raise TrainingError(f"training diverged: {name} holds numbers beyond {limit:,.0f}")
        return units.mul_(share).round_().long()


def exponent(value: Tensor) -> int:
    """The least e of 0 or more for which every number is below 2^e in magnitude."""
    if value.numel() == 0:
        return 0
    return max(0, math.frexp(float(value.abs().max()))[1])


def shares_of(weights: Mapping[int, float]) -> dict[int, float]:
    """Each client's part of the sum of all weights; 0 where nobody weighs anything."""
    whole = math.fsum(weights.values()) or 1.0
    return {client: weight / whole for client, weight in weights.items()}
