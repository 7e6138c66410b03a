"""Charts as JSON, which the scripts of a page draw."""

from collections.abc import Sequence
from functools import singledispatch
from typing import Any

import numpy as np

from univarfl.report.charts.base import Bars, Cells, Plot, Series
from univarfl.report.section import Section

DIGITS = 5
# A curve has at most so many points; with many curves fewer, so that a page stays below 15 MB.
MOST_POINTS, LEAST_POINTS, POINTS_OF_ALL = 500, 50, 200_000


def charts_as_json(sections: Sequence[Section]) -> dict[str, list[dict[str, Any]]]:
    """Return the charts of sections by title, as values that JSON has."""
    figures = [chart.figure for section in sections for chart in section.charts]
    curves = sum(len(figure.series) for figure in figures if isinstance(figure, Plot))
    most = min(MOST_POINTS, max(LEAST_POINTS, POINTS_OF_ALL // max(curves, 1)))
    return {
        section.title: [
            {"title": chart.title, **figure_as_json(chart.figure, most)} for chart in section.charts
        ]
        for section in sections
        if section.charts
    }


@singledispatch
def figure_as_json(figure: object, most: int) -> dict[str, Any]:
    """Return a figure as values that JSON has.

    Args:
        figure: what is drawn.
        most: the largest number of points of a curve.
    """
    raise TypeError(type(figure))


@figure_as_json.register
def _(figure: Plot, most: int) -> dict[str, Any]:
    kind = {"kind": "plot", "x": figure.x, "y": figure.y, "dots": figure.dots}
    scales = {"logX": figure.log_x, "log": figure.log_y}
    return {**kind, **scales, "series": [series_as_json(one, most) for one in figure.series]}


@figure_as_json.register
def _(figure: Bars, most: int) -> dict[str, Any]:
    del most
    bars = [
        {
            "name": bar.name,
            "style": bar.style,
            "points": [[name, *rounded([value])] for name, value in bar.points],
        }
        for bar in figure.bars
    ]
    return {"kind": "bars", "x": figure.x, "bars": bars}


@figure_as_json.register
def _(figure: Cells, most: int) -> dict[str, Any]:
    del most
    return {
        "kind": "cells",
        "value": figure.value,
        "row": figure.row,
        "column": figure.column,
        "rows": list(figure.rows),
        "columns": list(figure.columns),
        "values": [rounded(row) for row in figure.values.tolist()],
        "limits": figure.limits,
        "log": figure.log,
        "numbered": figure.numbered,
    }


def series_as_json(series: Series, most: int) -> dict[str, Any]:
    """Return a series with at most `most` points, evenly chosen, the last one among them."""
    count = len(series.x)
    kept = np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int)).tolist()
    found: dict[str, Any] = {"name": series.name, "style": series.style}
    for name in ("x", "y", "low", "high"):
        values = getattr(series, name)
        if len(values):
            found[name] = rounded([values[at] for at in kept])
    return found


def rounded(values: Sequence[float]) -> list[float | int | None]:
    """Return numbers with few digits; None for those that JSON lacks."""
    return [short(float(f"{value:.{DIGITS}g}")) if np.isfinite(value) else None for value in values]


def short(value: float) -> float | int:
    """Return a number as JSON writes it shortest."""
    return int(value) if value.is_integer() else value
