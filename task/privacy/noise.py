"""Gaussian noise added to real numbers on a grid, so that its low bits reveal nothing."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from task.privacy.discrete_gaussian import discrete_gaussian
from task.seeding import ByteSource, secret_bytes

GRID_BITS = 35  # the noise's deviation is from 2^35 to 2^36 units of the grid


def add_gaussian_noise(
    values: NDArray[Any], deviation: float, random_bytes: ByteSource = secret_bytes
) -> NDArray[np.float64]:
    """Return the values rounded to a grid, with discrete Gaussian noise.

    The grid's unit is at most 2^-35 deviations. Rounding moves a value by half a unit at most, so
    d values move by less than 2^-36 * sqrt(d) deviations; for 10^8 values that is 10^-6.

    Args:
        values: of any shape.
        deviation: the noise's standard deviation, at least 0; 0 changes nothing.
        random_bytes: returns a given number of random bytes.
    """
    if not deviation:
        return values.astype(np.float64)
    unit = 2.0 ** (math.frexp(deviation)[1] - 1 - GRID_BITS)
    noise = discrete_gaussian(deviation / unit, values.size, random_bytes).reshape(values.shape)
    noisy: NDArray[np.float64] = np.rint(values.astype(np.float64) / unit)
    noisy += noise
    noisy *= unit
    return noisy
