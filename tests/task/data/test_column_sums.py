"""Sums of columns as integers: exact, and the same for every division of the rows."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from task.data.column_sums import BITS, SUMS, column_sums, constants_of, problem_with
from task.data.sources.families.schema import Column, Label, Schema

LOW, HIGH = -3.0, 1000.0
SCHEMA = Schema(
    [
        Column("on", "flag"),
        Column("x", "number", low=LOW, high=HIGH, missing="indicator"),
        Column("y", "number", low=0.0, high=1e-3, missing="mean"),
    ],
    Label("class", ["a", "b"]),
)
ROWS = st.lists(st.tuples(st.floats(LOW, HIGH), st.floats(0, 1e-3)), min_size=1, max_size=30)


def vectors(rows: list[tuple[float, float]]) -> np.ndarray:
    return np.array([[1, x, 0, y] for x, y in rows], np.float32).reshape(len(rows), 4)


@given(ROWS, st.integers(0, 30))
def test_sums_do_not_depend_on_the_division(rows: list[tuple[float, float]], cut: int) -> None:
    found = vectors(rows)
    whole = column_sums(SCHEMA, found)
    assert whole.shape == (SUMS, 2)
    parts = column_sums(SCHEMA, found[:cut]) + column_sums(SCHEMA, found[cut:])
    assert np.array_equal(whole, parts)
    assert problem_with(whole, len(rows)) == ""


@given(ROWS)
def test_constants_are_those_of_the_units_exactly(rows: list[tuple[float, float]]) -> None:
    mean, deviation = constants_of(SCHEMA, column_sums(SCHEMA, vectors(rows)))
    for at, (low, high) in enumerate(((LOW, HIGH), (0.0, 1e-3))):
        values = [float(np.float32(row[at])) for row in rows]
        units = [round(min(1, (value - low) / (high - low)) * 2**BITS) for value in values]
        count = len(units)
        variance = Fraction(sum(q * q for q in units), count) - Fraction(sum(units), count) ** 2
        unit = (high - low) / 2**BITS
        assert mean[at] == pytest.approx(low + unit * sum(units) / count, rel=1e-14)
        expected = unit * float(variance) ** 0.5 if variance else 1.0
        assert deviation[at] == pytest.approx(expected, rel=1e-14)
        assert abs(mean[at] - np.mean(values)) <= 1e-7 * (high - low)  # a unit, and float32


def test_a_column_without_numbers_has_the_middle_of_its_range() -> None:
    found = vectors([(5.0, 0.0), (5.0, 0.0)])
    found[:, 3] = np.nan
    assert constants_of(SCHEMA, column_sums(SCHEMA, found)) == ([pytest.approx(5), 5e-4], [1, 1])


@pytest.mark.parametrize(
    ("row", "value", "problem"),
    [
        (0, 3, "a column has more numbers than 2 rows"),
        (0, -1, "a column has more numbers than 2 rows"),
        (1, -1, "outside the range"),
        (1, 2**32, "outside the range"),
        (2, 2**62, "outside the range"),
        (2, 0, "a sum of squares is too small"),
    ],
)
def test_impossible_sums_are_refused(row: int, value: int, problem: str) -> None:
    sums = column_sums(SCHEMA, vectors([(500.0, 5e-4), (400.0, 4e-4)]))
    assert problem_with(sums, 2) == ""
    sums[row, 0] = value
    assert problem in problem_with(sums, 2)
