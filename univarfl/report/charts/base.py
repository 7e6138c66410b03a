"""Charts as numbers: the page draws them with scripts, and `draw` writes them as pictures."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

LONGEST_SLUG = 80
Numbers = Sequence[float]


@dataclass(frozen=True)
class Series:
    """A curve, or a group of dots.

    Attributes:
        name: its name in the legend.
        style: a number that decides colour and dashes, or colour and shape.
        x: the places of its points.
        y: their values.
        low: the lower edge of its band; empty if it has none.
        high: the upper edge.
    """

    name: str
    style: int
    x: Numbers
    y: Numbers
    low: Numbers = ()
    high: Numbers = ()


@dataclass(frozen=True)
class Plot:
    """Curves, or groups of dots.

    Attributes:
        x: the label of the x axis.
        y: the label of the y axis.
        series: what is drawn.
        log_x: whether the x axis is logarithmic.
        log_y: whether the y axis is.
        whole_x: whether x has whole numbers alone.
        dots: whether points are drawn instead of curves; then the axes have no numbers.
    """

    x: str
    y: str
    series: Sequence[Series]
    log_x: bool = False
    log_y: bool = False
    whole_x: bool = False
    dots: bool = False


@dataclass(frozen=True)
class Bar:
    """A bar: the mean of some values.

    Attributes:
        name: its name.
        style: a number that decides its colour.
        points: the values, each with its own name.
    """

    name: str
    style: int
    points: Sequence[tuple[str, float]]


@dataclass(frozen=True)
class Bars:
    """Bars from 0 to 100 %.

    Attributes:
        x: what they measure.
        bars: from top to bottom.
    """

    x: str
    bars: Sequence[Bar]


@dataclass(frozen=True)
class Cells:
    """A table whose cells are coloured by their values.

    Attributes:
        value: what the values are, with their unit.
        row: what a row is.
        column: what a column is.
        rows: the names of the rows, from top to bottom.
        columns: the names of the columns.
        values: [rows, columns]; NaN where there is none.
        limits: the values of the first and the last colour; None for the smallest and largest.
        log: whether colours are spread over the logarithm of the values.
    """

    value: str
    row: str
    column: str
    rows: Sequence[str]
    columns: Sequence[str]
    values: NDArray[np.float64]
    limits: tuple[float, float] | None = None
    log: bool = False

    @property
    def numbered(self) -> bool:
        """Whether there is room for a number in each cell."""
        return len(self.columns) <= MOST_NUMBERS


MOST_NUMBERS = 12  # with more columns, numbers are not written into the cells
Figure = Plot | Bars | Cells


@dataclass(frozen=True)
class Chart:
    """A chart of a report.

    Attributes:
        section: the heading of its section.
        title: what it shows of the section; empty if it shows all.
        name: the name of its files without suffix.
        figure: the numbers.
    """

    section: str
    title: str
    name: str
    figure: Figure


def mean_series(name: str, style: int, x: Any, values: NDArray[np.float64]) -> Series:
    """Return the mean of `values` [runs, x], with a band of one standard deviation."""
    mean = values.mean(axis=0)
    if len(values) < 2:
        return Series(name, style, list(x), mean.tolist())
    spread = values.std(axis=0, ddof=1)
    return Series(
        name, style, list(x), mean.tolist(), (mean - spread).tolist(), (mean + spread).tolist()
    )


def slug(text: str) -> str:
    """Return a text as part of a file name."""
    plain = re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-").lower()
    if len(plain) <= LONGEST_SLUG and plain == text.lower().replace(", ", "-").replace(" ", "-"):
        return plain
    return f"{plain[:LONGEST_SLUG]}-{hashlib.sha256(text.encode()).hexdigest()[:6]}"
