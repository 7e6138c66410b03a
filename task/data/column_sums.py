"""The mean and deviation of each number of a table, from sums that are exact integers.

A number x of a column from low to high is counted in units of (high - low) / 2^30 above low: q, a
whole number from 0 to 2^30. A client's part is the count of its rows with a number, the sum of q,
and the sum of q * q, in two halves so that each stays below 2^63. Integers have one sum in any
order. So the mean and the deviation do not depend on how the rows are divided among clients.
"""

from collections.abc import Sequence
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from task.data.sources.families.schema import Column, Schema

BITS = 30  # of a unit: the range of a column has 2^30
SUMS = 4  # of a column: its count, of q, and of the high and the low half of q * q
MOST_ROWS = 2**32  # of all clients; each sum of so many stays below 2^63

Sums = NDArray[np.int64]


def number_columns(schema: Schema) -> list[Column]:
    """Return the columns of numbers, which are standardised."""
    return [column for column in schema.columns if column.type == "number"]


def column_sums(schema: Schema, vectors: NDArray[np.float32]) -> Sums:
    """Return the sums of some vectors [n, C], by column of numbers, [SUMS, M] int64."""
    encoded = [place for place, each in enumerate(schema.encoded) if each.number]
    columns = number_columns(schema)
    sums = np.zeros((SUMS, len(columns)), np.int64)
    for at, (place, column) in enumerate(zip(encoded, columns, strict=True)):
        values = vectors[:, place].astype(np.float64)
        values = values[~np.isnan(values)]
        low, high = bounds(column)
        share = np.clip((values - low) / (high - low), 0, 1)  # float32 can round beyond high
        units = np.rint(share * 2**BITS).astype(np.int64)
        squares = units * units
        halves = squares >> BITS, squares & (2**BITS - 1)
        sums[:, at] = len(units), units.sum(), *(half.sum() for half in halves)
    return sums


def problem_with(sums: Sums, rows: int) -> str:
    """Return why sums cannot be those of at most so many rows; "" if they can."""
    count, units, high, low = sums
    if not ((count >= 0) & (count <= rows)).all():
        return f"a column has more numbers than {rows} rows"
    for part in (units, high, low):
        if not ((part >= 0) & (part <= count * 2**BITS)).all():
            return "a sum is outside the range of its column"
    if any(variance < 0 for variance in map(scaled_variance, sums.T.tolist())):
        return "a sum of squares is too small"
    return ""


def scaled_variance(sums: Sequence[int]) -> int:
    """Return the variance of q times the square of the count, from the sums of one column."""
    count, units, high, low = sums
    return count * ((high << BITS) + low) - units * units


def constants_of(schema: Schema, sums: Sums) -> tuple[list[float], list[float]]:
    """Return the mean and the deviation of each column of numbers.

    A column whose numbers are all equal has deviation 1, and one without any the middle of its
    range as its mean.

    Args:
        schema: the columns.
        sums: those of all clients, [SUMS, M].
    """
    mean, deviation = [], []
    for column, each in zip(number_columns(schema), sums.T.tolist(), strict=True):
        low, high = bounds(column)
        unit = (high - low) / 2**BITS
        count, units = each[0], each[1]
        variance = scaled_variance(each)
        mean.append(low + unit * (units / count) if count else (low + high) / 2)
        # The root of an integer is a whole number here; 2^64 more units keep its digits.
        root = isqrt(variance << 128) / 2**64
        deviation.append(unit * (root / count) if variance else 1.0)
    return mean, deviation


def bounds(column: Column) -> tuple[float, float]:
    """Return the range of a column of numbers."""
    assert column.low is not None
    assert column.high is not None
    return column.low, column.high
