"""Charts as pictures for papers: readable on a phone, and by colour-blind people."""

import textwrap
from collections.abc import Sequence
from functools import singledispatch
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from server_app.report.charts.base import Bars, Cells, Chart, Plot, Series
from server_app.report.charts.base import Figure as Numbers
from task.machine.files import draft_of

# The colours of the pages' light theme. The numbers of colours, markers and dashes have no common
# divisor, so many methods get different combinations.
COLOURS = ("#0060A8", "#C24A00", "#00765A", "#A63D7D", "#7D5800", "#5B3FA8", "#7A1F4D", "#444444")
MARKERS = "os^Dv<>ph*X"
DASHES: Sequence[Any] = ("-", (0, (5, 2.5)), (0, (1.5, 2)), (0, (6, 2, 1.5, 2)), (0, (1, 4)))
SIZE = (5.2, 3.9)
LEGEND_ROWS, ROW_HEIGHT = 2, 0.2  # each further row of a legend adds so many inches
LONGEST_NAME, LONGEST_UPRIGHT, MOST_TICKS = 16, 5, 12
NARROW_RANGE = 0.4  # of a logarithmic axis: from here on there is room for all its ticks
STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "univarfl",  # equal records give equal files
}


def save(chart: Chart, directory: Path) -> None:
    """Write a chart as PNG and SVG.

    Raises:
        OSError: the directory cannot be written.
    """
    with mpl.rc_context(STYLE):
        figure = drawn(chart.figure)
        for suffix in ("png", "svg"):
            metadata = {"Date": None} if suffix == "svg" else {}
            with draft_of(directory / f"{chart.name}.{suffix}") as draft:
                figure.savefig(draft, format=suffix, dpi=160, metadata=metadata)


def drawn(numbers: Numbers) -> Figure:
    """Return a chart as a figure; it has its style while `STYLE` is active."""
    figure = Figure(figsize=SIZE, layout="constrained")
    fill(numbers, figure.subplots())
    return figure


@singledispatch
def fill(numbers: object, axes: Axes) -> None:
    """Draw a chart into axes."""
    raise TypeError(type(numbers))


@fill.register
def _(plot: Plot, axes: Axes) -> None:
    for series in plot.series:
        draw_series(axes, series, plot.dots)
    axes.set(xlabel=plot.x, ylabel=plot.y)
    if plot.log_y:
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        subs = range(1, 10) if low > NARROW_RANGE * high else (1, 2, 3, 5, 7)
        axes.yaxis.set_major_locator(LogLocator(subs=subs))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_locator(NullLocator())
    if plot.whole_x:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    places = sorted({x for series in plot.series for x in series.x})
    if plot.log_x:
        axes.set_xscale("log")
    if plot.log_x and len(places) <= MOST_TICKS:
        axes.set_xticks(places, [f"{place:g}" for place in places])
        axes.minorticks_off()
    if plot.dots:
        axes.set(xticks=[], yticks=[])
    else:
        axes.grid(alpha=0.3)
    add_legend(axes)


def draw_series(axes: Axes, series: Series, dots: bool) -> None:
    """Draw a curve with its band, or dots."""
    colour, marker, dash = style_of(series.style)
    name = clipped(series.name) if dots else series.name.replace("$", r"\$")
    if dots:
        full = series.style < len(COLOURS)
        axes.scatter(
            series.x, series.y, s=9, label=name, edgecolors=colour, marker=marker,
            facecolors=colour if full else "none",
        )  # fmt: skip
        return
    axes.plot(series.x, series.y, color=colour, marker=marker, linestyle=dash, markersize=4,
              label=name, markevery=max(1, len(series.x) // 8), linewidth=1.6)  # fmt: skip
    if len(series.low):
        axes.fill_between(series.x, series.low, series.high, color=colour, alpha=0.15, linewidth=0)


@fill.register
def _(bars: Bars, axes: Axes) -> None:
    for place, bar in enumerate(bars.bars):
        points = [value for _, value in bar.points]
        spread = np.std(points, ddof=1) if len(points) > 1 else 0
        colour, _, _ = style_of(bar.style)
        axes.barh(place, np.mean(points), xerr=spread, color=colour, alpha=0.65, capsize=3)
        axes.plot(points, [place + 0.2] * len(points), "o", color="black", markersize=3)
        axes.annotate(f"{np.mean(points):.1f}", (1, place), (4, 0), ("axes fraction", "data"),
                      textcoords="offset points", va="center", fontweight="bold")  # fmt: skip
    name_rows(axes, [bar.name for bar in bars.bars])
    axes.invert_yaxis()
    axes.set(xlabel=bars.x, xlim=(0, 100))
    axes.grid(alpha=0.3)


@fill.register
def _(cells: Cells, axes: Axes) -> None:
    low, high = cells.limits or (np.nanmin(cells.values), np.nanmax(cells.values))
    norm = LogNorm(low, high) if cells.log else Normalize(low, high)
    image = axes.imshow(cells.values, cmap="cividis", norm=norm, aspect="auto")
    if cells.numbered:
        for row, column in np.ndindex(cells.values.shape):
            value = cells.values[row, column]
            colour = "white" if norm(value) < 0.6 else "black"
            axes.annotate(f"{value:.0f}", (column, row), ha="center", va="center",
                          color=colour, fontsize=8)  # fmt: skip
    else:
        figure = axes.get_figure()
        assert isinstance(figure, Figure)
        figure.colorbar(image, label=cells.value)
    step = 1 if cells.numbered else max(1, len(cells.columns) // 7)
    names = [clipped(name) for name in cells.columns][::step]
    long = max(map(len, names)) > LONGEST_UPRIGHT
    axes.set_xticks(
        range(0, len(cells.columns), step), names,
        rotation=60 if long else 0, ha="right" if long else "center",
    )  # fmt: skip
    name_rows(axes, cells.rows, step if len(cells.rows) > MOST_TICKS else 1)
    axes.set(xlabel=cells.column, ylabel="" if cells.row == "method" else cells.row)
    axes.spines[:].set_visible(False)


def style_of(style: int) -> tuple[str, str, Any]:
    """Return colour, marker and dash."""
    return COLOURS[style % len(COLOURS)], MARKERS[style % len(MARKERS)], DASHES[style % len(DASHES)]


def add_legend(axes: Axes) -> None:
    """Add a legend below the axes; many names make the picture higher."""
    handles, names = axes.get_legend_handles_labels()
    if not handles:
        return
    figure = axes.get_figure()
    assert isinstance(figure, Figure)
    columns = 3 if max(map(len, names)) <= LONGEST_NAME else 1
    more = max(0, -(-len(names) // columns) - LEGEND_ROWS)
    figure.set_figheight(figure.get_figheight() + ROW_HEIGHT * more)
    figure.legend(
        handles, names, loc="outside lower center", ncols=columns, frameon=False, fontsize=9
    )


def name_rows(axes: Axes, names: Sequence[str], step: int = 1) -> None:
    """Label the rows; long names take several lines."""
    shown = [textwrap.fill(name.replace("$", r"\$"), 18) for name in names]
    axes.set_yticks(range(0, len(names), step), shown[::step])


def clipped(name: str) -> str:
    """Return a name short enough for a column label, with dollar signs escaped."""
    short = name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"
    return short.replace("$", r"\$")
