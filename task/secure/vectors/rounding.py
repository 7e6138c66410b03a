"""Real numbers as integers, such that a sum of the integers hides the single numbers.

Trained weights are float32, so each is a multiple of a power of two, its *ulp*. In a sum on a grid
that is finer than the ulp, or with known weights, the multiples of single clients could be told
apart. So the unit of the grid is coarser than the ulps of usual weights, or random numbers cover
the ulp. ``docs/explanation/rounding-masked-sums.md`` derives what the sums reveal.
"""

from typing import Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR
from numpy.typing import NDArray

from task.errors import TrainingError
from task.secure.settings import RoundingRule

UNIT = 2.0**-20
CHUNK = 1 << 15  # numbers at a time; their temporary copies stay in a processor's cache
WORD_BYTES = 4
BLOCK = 16  # bytes of AES's counter, which starts at 0: no key serves two streams
FLOAT32 = 2.0**-23  # the ulp of 1

Reals = NDArray[np.float64]


class Rounding(Protocol):
    """Rounds numbers, one after another."""

    def __call__(self, values: Reals, ulps: Reals | None) -> Reals:
        """Return whole numbers for at most `CHUNK` numbers.

        Args:
            values: the numbers in units; may be overwritten.
            ulps: the ulp in units of what each number comes from; None if all are at most 1.

        Raises:
            TrainingError: the rounding would not hide a number.
        """


class Stochastic:
    """Rounds up or down at random; the mean of the result is the number (unbiased).

    A number whose ulp is L > 1 units is moved by a random number between -L / 2 and L / 2 first.

    Args:
        key: 32 bytes. AES-256 in counter mode makes the random numbers from them.
    """

    def __init__(self, key: bytes) -> None:
        self._stream = Cipher(AES(key), CTR(bytes(BLOCK))).encryptor()
        self._buffer = bytearray(CHUNK * WORD_BYTES)
        self._words = np.frombuffer(self._buffer, "<u4")

    def __call__(self, values: Reals, ulps: Reals | None) -> Reals:
        draws = self._uniform(len(values))
        if ulps is not None:
            draws -= 0.5
            draws *= np.maximum(1.0, ulps)
            draws += 0.5
        values += draws
        return np.floor(values, out=values)

    def _uniform(self, count: int) -> Reals:
        """Return numbers in (0, 1), the centres of 2^32 equal parts."""
        self._stream.update_into(bytes(count * WORD_BYTES), self._buffer)
        draws = self._words[:count].astype(np.float64)
        draws += 0.5
        draws *= 2.0**-32
        return draws


def nearest(values: Reals, ulps: Reals | None) -> Reals:
    """Round to the nearest whole number, as `Rounding` has it.

    Raises:
        TrainingError: an ulp is above 1 unit, so that a sum would show which client it is from.
    """
    if ulps is not None and (ulps > 1).any():
        raise TrainingError(
            "secure.rounding=nearest is for numbers below 16, and the model has a larger one; "
            "choose secure.rounding=stochastic"
        )
    return np.rint(values, out=values)


def rounding_of(rule: RoundingRule, key: bytes) -> Rounding:
    """Return what rounds the numbers of one vector.

    Args:
        rule: how.
        key: 32 bytes that ``stochastic`` draws from.
    """
    return nearest if rule == "nearest" else Stochastic(key)


def rounded_at_random(values: Reals, weight: float, unit: float, key: bytes) -> NDArray[np.int64]:
    """Return weight * values in a unit, rounded at random.

    Args:
        values: finite numbers, such as losses, that were computed in float32.
        weight: at most 1.
        unit: the value of 1 in the result.
        key: 32 bytes, used for nothing else.
    """
    ulps = ulps_of(values, FLOAT32) / unit
    return Stochastic(key)(values * (weight / unit), ulps).astype(np.int64)


def ulps_of(values: Reals, precision: float) -> Reals:
    """Return the ulp of each number.

    Args:
        values: numbers; infinity and NaN have any ulp.
        precision: the ulp of 1 in the type that the numbers come from, such as 2^-23.
    """
    ulps: Reals = np.ldexp(precision, np.frexp(values)[1] - 1)
    return ulps
