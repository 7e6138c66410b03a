"""Weighted sums of models whose bits do not depend on the order or the place of addition."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping

import torch
from torch import Tensor

from task.config import Secure
from task.errors import TrainingError, diverged
from task.registry import named
from task.tensors import Tensors

FRACTION_BITS, GROWTH_BITS = 46, 16
KEY_BYTES = 32  # of the key that random rounding is drawn from
ROUNDED = "task.secure.vectors.rounded_sum:RoundedSum"
NO_KEY = bytes(KEY_BYTES)  # of a sum without random rounding


class IntegerSum(ABC):
    """A weighted sum of models as 64-bit integers, whose order does not matter.

    So each worker can add up its own clients, and the server the workers' sums. Memory and messages
    do not grow with the number of clients, and the bits do not depend on the number of workers.

    Args:
        start: the global weights before the round; must be the same for all sums that are added.

    Attributes:
        totals: the sums so far, by name, int64.
    """

    def __init__(self, start: Tensors) -> None:
        self._floating = {name: value.is_floating_point() for name, value in start.items()}
        self.totals: dict[str, Tensor] = {}

    @abstractmethod
    def to_fixed_point(self, values: Tensors, share: float, key: bytes) -> dict[str, Tensor]:
        """Return a client's part of the sum as integers, int64, ready for `add`.

        Args:
            values: a client's model, in the names and shapes of `start`.
            share: the client's weight; at most 1.
            key: `KEY_BYTES` bytes that random rounding is drawn from; unused by an exact sum.

        Raises:
            TrainingError: a number is too large or NaN.
        """

    def add(self, totals: Tensors) -> None:
        """Add the result of `to_fixed_point`, or the `totals` of a sum with the same start."""
        for name, value in totals.items():
            if name not in self.totals:
                self.totals[name] = value.clone()
            elif self._floating[name]:
                self.totals[name].add_(value)
            else:
                torch.maximum(self.totals[name], value, out=self.totals[name])

    def check_totals(self, totals: Tensors) -> None:
        """Check that the `totals` of another sum can be the sum of valid models.

        Raises:
            TrainingError: a number is too large.
        """
        for name, value in totals.items():
            if self._floating[name] and value.numel():
                least, most = value.aminmax()
                if not -self.most <= int(least) <= int(most) <= self.most:
                    raise TrainingError(
                        f"{name} in the sum is larger than valid models can add up to"
                    )

    @property
    @abstractmethod
    def most(self) -> int:
        """The largest magnitude that a number of valid `totals` can have."""

    @abstractmethod
    def mean(self, share: float) -> dict[str, Tensor]:
        """Return the weighted mean, float64, and the integers; `share` is the sum of all shares."""


class ExactSum(IntegerSum):
    """The sum over clients of share * model, in a fixed point that is finer than float32.

    The shares of all clients sum to at most 1. A tensor's unit is 2^-46 * 2^e. 2^e is the smallest
    power of two, at least 1, that is above every number of the tensor at the start of the round. No
    number may exceed 2^16 * 2^e at the end of the round. Integers, such as batch norm's counters,
    are not added: the largest is kept. Masked sums are rounded (`task.secure.vectors.rounded_sum`),
    because an exact sum of a few clients can be split into their models.
    """

    most = 2 ** (FRACTION_BITS + GROWTH_BITS)  # for shares that add up to 1

    def __init__(self, start: Tensors) -> None:
        super().__init__(start)
        self._exponents = {
            name: exponent(value) if value.is_floating_point() else None
            for name, value in start.items()
        }

    def to_fixed_point(
        self, values: Tensors, share: float, key: bytes = NO_KEY
    ) -> dict[str, Tensor]:
        return {name: self._fixed(name, value, share) for name, value in values.items()}

    def mean(self, share: float) -> dict[str, Tensor]:
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
            raise diverged(f"{name} has numbers beyond {limit:,.0f}")
        return units.mul_(share).round_().long()


def exponent(value: Tensor) -> int:
    """Return the smallest e >= 0 such that every number is below 2^e in magnitude."""
    if value.numel() == 0:
        return 0
    return max(0, math.frexp(float(value.abs().max()))[1])


def normalise_weights(weights: Mapping[int, float]) -> dict[int, float]:
    """Return each client's share of the sum of all weights; 0 for all if the sum is 0."""
    whole = math.fsum(weights.values()) or 1.0
    return {client: weight / whole for client, weight in weights.items()}


def relative_weights(weights: Mapping[int, float]) -> dict[int, float]:
    """Return each client's weight divided by the largest; 0 for all if this is 0."""
    largest = max(weights.values(), default=0.0) or 1.0
    return {client: weight / largest for client, weight in weights.items()}


def new_sum(secure: Secure, start: Tensors) -> IntegerSum:
    """Return an empty sum of models that were trained from the weights `start`.

    Args:
        secure: the experiment's; masked rounds need rounded numbers.
        start: the global weights before the round.
    """
    if secure.rounded:
        rounded: IntegerSum = named(ROUNDED)(start, secure.rounding)
        return rounded
    return ExactSum(start)
