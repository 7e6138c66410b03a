"""Real numbers as integers, such that a sum of the integers hides the single numbers.

Trained weights are float32, so each is a multiple of a power of two, its *ulp*. In a sum on a grid
that is finer than the ulp, or with known weights, the multiples of single clients could be told
apart. So random rounding covers at least one unit, and many ulps. It does not hide updates that lie
on a coarser grid, such as counts of images.
``docs/explanation/rounding-masked-sums.md`` derives what the sums reveal.
"""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from task.config import RoundingRule
from task.secure.primitives.mask_stream import CHUNK, random_stream

UNIT = 2.0**-20
COVERED = 2.0**8  # ulps of a number at the start that random rounding covers
WORD_BYTES = 4
FLOAT32 = 2.0**-23  # the ulp of 1
EXPONENT_BITS = np.uint32(0x7F80_0000)  # of a float32; with the others 0, it is a power of two

Reals = NDArray[np.float64]


class Rounding(Protocol):
    """Rounds numbers, one after another."""

    def __call__(self, values: Reals, starts: Reals, ulps: Reals) -> Reals:
        """Return whole numbers for at most `CHUNK` numbers.

        Args:
            values: the numbers in units; may be overwritten.
            starts: the ulps of the numbers at the start, in units.
            ulps: the largest ulps of what was subtracted to get each number, in units.
        """


class Stochastic:
    """Rounds at random; the mean of the result is the number (unbiased).

    A number moves by a random number between -L / 2 and L / 2 before it is rounded to the nearest
    integer. L is a power of two, at least 1 unit, `COVERED` ulps of the start, and 1 ulp of the
    trained number.

    Args:
        key: 32 bytes. AES-256 in counter mode makes the random numbers from them.
    """

    def __init__(self, key: bytes) -> None:
        self._stream = random_stream(key)
        self._buffer = bytearray(CHUNK * WORD_BYTES)
        self._words = np.frombuffer(self._buffer, "<u4")

    def __call__(self, values: Reals, starts: Reals, ulps: Reals) -> Reals:
        widths = starts * COVERED
        np.maximum(widths, 1.0, out=widths)
        np.maximum(widths, ulps, out=widths)
        draws = self._centred(len(values))
        draws *= widths
        values += draws
        values += 0.5
        return np.floor(values, out=values)

    def _centred(self, count: int) -> Reals:
        """Return numbers in (-1/2, 1/2), the centres of 2^32 equal parts."""
        self._stream.update_into(bytes(count * WORD_BYTES), self._buffer)
        draws = self._words[:count].astype(np.float64)
        draws -= 2.0**31 - 0.5
        draws *= 2.0**-32
        return draws


class Nearest:
    """Rounds to the nearest integer. A number whose ulp is above a unit is moved at random first.

    Without this, the low bits of the sum would be those of the other clients. So numbers from 16
    are rounded at random.

    Args:
        key: as for `Stochastic`.
    """

    def __init__(self, key: bytes) -> None:
        self._random = Stochastic(key)

    def __call__(self, values: Reals, starts: Reals, ulps: Reals) -> Reals:
        coarse = ulps > 1
        if coarse.any():
            nothing = np.zeros(int(coarse.sum()))
            values[coarse] = self._random(values[coarse], nothing, ulps[coarse])
        return np.rint(values, out=values)


RULES: dict[RoundingRule, type[Stochastic] | type[Nearest]] = {
    "stochastic": Stochastic,
    "nearest": Nearest,
}


def rounded_at_random(values: Reals, weight: float, unit: float, key: bytes) -> NDArray[np.int64]:
    """Return weight * values in a unit, rounded at random.

    Args:
        values: finite numbers, such as losses, that were computed in float32.
        weight: at most 1.
        unit: the value of 1 in the result.
        key: 32 bytes, used for nothing else.
    """
    ulps = ulps_of(values, FLOAT32) / unit
    return Stochastic(key)(values * (weight / unit), ulps * 0, ulps).astype(np.int64)


def ulps_of(values: NDArray[np.floating], precision: float) -> Reals:
    """Return the ulp of each number; 0 for numbers below 2^-126.

    Args:
        values: numbers.
        precision: the ulp of 1 in the type that the numbers come from, such as 2^-23.
    """
    powers = values.astype(np.float32).view(np.uint32) & EXPONENT_BITS
    return powers.view(np.float32).astype(np.float64) * precision
