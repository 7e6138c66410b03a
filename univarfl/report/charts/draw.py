"""Charts as pictures for papers: readable on a phone, and by colour-blind people."""

from collections.abc import Sequence
from functools import singledispatch
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from task.machine.files import draft_of
from univarfl.report.charts.base import Bars, Cells, Chart, Plot, Series
from univarfl.report.charts.base import Figure as Numbers
from univarfl.report.charts.names import clipped, legend_width, room, width, wrapped

# The colours of the pages' light theme. The numbers of colours, markers and dashes have no common
# divisor, so many methods get different combinations.
COLOURS = ("#0060A8", "#C24A00", "#00765A", "#A63D7D", "#7D5800", "#5B3FA8", "#7A1F4D", "#444444")
MARKERS = "os^Dv<>ph*X"
DASHES: Sequence[Any] = ("-", (0, (5, 2.5)), (0, (1.5, 2)), (0, (6, 2, 1.5, 2)), (0, (1, 4)))
SIZE = (5.2, 3.9)
FONT, SMALL_FONT = 10, 9  # points
LEGEND_ROWS, ROW_HEIGHT = 2, 0.2  # each further line of a legend adds so many inches
LINE_HEIGHT = 0.17  # inches, of a line of a row's name
ROW_GAP, OTHER_HEIGHT = 0.03, 0.65  # inches, between rows' names, and above and below all rows
BAR_MARGINS = 1.1  # height of the axes, relative to that of the rows of bars
BESIDE_CELLS, COLOUR_BAR = 25, 70  # points, what takes room from the columns
ROW_WIDTH, WIDEST_ROW = 18, 22  # characters; names with longer words get wider lines
LONGEST_NAME, LONGEST_UPRIGHT, MOST_TICKS = 16, 5, 12
NARROW_RANGE = 0.4  # of a logarithmic axis: from here on there is room for all its ticks
STYLE: dict[Any, Any] = {
    "font.size": FONT,
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
    handles = [draw_series(axes, series, plot.dots) for series in plot.series]
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
    names = [series.name for series in plot.series]
    add_legend(axes, handles, clipped(names, LONGEST_NAME) if plot.dots else names)


def draw_series(axes: Axes, series: Series, dots: bool) -> Artist:
    """Draw a curve with its band, or dots, and return what stands for it in a legend."""
    colour, marker, dash = style_of(series.style)
    if dots:
        full = series.style < len(COLOURS)
        return axes.scatter(
            series.x, series.y, s=9, edgecolors=colour, marker=marker,
            facecolors=colour if full else "none",
        )  # fmt: skip
    (line,) = axes.plot(series.x, series.y, color=colour, marker=marker, linestyle=dash,
                        markersize=4, markevery=max(1, len(series.x) // 8),
                        linewidth=1.6)  # fmt: skip
    if len(series.low):
        axes.fill_between(series.x, series.low, series.high, color=colour, alpha=0.15, linewidth=0)
    return line


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
    rows = name_rows(axes, [bar.name for bar in bars.bars])
    make_higher(axes, BAR_MARGINS * rows + OTHER_HEIGHT)
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
            if np.isnan(value):
                continue
            colour = "white" if norm(value) < 0.6 else "black"
            axes.annotate(f"{value:.0f}", (column, row), ha="center", va="center",
                          color=colour, fontsize=8)  # fmt: skip
    else:
        figure = axes.get_figure()
        assert isinstance(figure, Figure)
        figure.colorbar(image, label=cells.value)
    if cells.row == "method":
        rows = name_rows(axes, cells.rows)
    else:
        rows = 0.0
        every = max(1, len(cells.rows) // 7) if len(cells.rows) > MOST_TICKS else 1
        axes.set_yticks(range(0, len(cells.rows), every), cells.rows[::every])
    make_higher(axes, rows + name_columns(axes, cells) + OTHER_HEIGHT)
    axes.set(xlabel=cells.column, ylabel="" if cells.row == "method" else cells.row)
    axes.spines[:].set_visible(False)


def style_of(style: int) -> tuple[str, str, Any]:
    """Return colour, marker and dash."""
    return COLOURS[style % len(COLOURS)], MARKERS[style % len(MARKERS)], DASHES[style % len(DASHES)]


def add_legend(axes: Axes, handles: Sequence[Artist], names: Sequence[str]) -> None:
    """Add a legend below the axes; many or long names make the picture higher."""
    shown = [(handle, name) for handle, name in zip(handles, names, strict=True) if name]
    if not shown:
        return
    figure = axes.get_figure()
    assert isinstance(figure, Figure)
    names = [name for _, name in shown]
    short = max(map(len, names)) <= LONGEST_NAME
    columns = next(
        (n for n in (3, 2) if short and legend_width(names, n, SMALL_FONT) < room(figure)), 1
    )
    lines = [wrapped(name, lambda line: legend_width([line], 1, SMALL_FONT) < room(figure))
             for name in names]  # fmt: skip
    rows = -(-sum(map(len, lines)) // columns)
    figure.set_figheight(figure.get_figheight() + ROW_HEIGHT * max(0, rows - LEGEND_ROWS))
    figure.legend(
        [handle for handle, _ in shown], [escaped("\n".join(each)) for each in lines],
        loc="outside lower center", ncols=columns, frameon=False, fontsize=SMALL_FONT,
    )  # fmt: skip


def name_rows(axes: Axes, names: Sequence[str]) -> float:
    """Label the rows, long names in several lines, and return the rows' height in inches."""
    words = [len(word) for name in names for word in name.split()]
    longest = min(max([ROW_WIDTH, *words]), WIDEST_ROW)
    lines = [wrapped(name, lambda line: len(line) <= longest) for name in names]
    axes.set_yticks(range(len(names)), [escaped("\n".join(each)) for each in lines])
    most = max((len(one) + len(other) for one, other in pairwise(lines)), default=0) / 2
    return len(names) * (most * LINE_HEIGHT + ROW_GAP)


def name_columns(axes: Axes, cells: Cells) -> float:
    """Label the columns, and return the height in inches of labels that are tilted to fit."""
    step = 1 if cells.numbered else max(1, len(cells.columns) // 7)
    names = clipped(cells.columns, LONGEST_NAME)[::step]
    beside = [line for label in axes.get_yticklabels() for line in label.get_text().split("\n")]
    free = 72 * SIZE[0] - max(width(line, FONT) for line in beside) - BESIDE_CELLS
    free -= 0 if cells.numbered else COLOUR_BAR
    widest = max(width(name, FONT) for name in names)
    tilted = len(names) * widest > free or max(map(len, names)) > LONGEST_UPRIGHT
    axes.set_xticks(
        range(0, len(cells.columns), step), [escaped(name) for name in names],
        rotation=60 if tilted else 0, ha="right" if tilted else "center",
    )  # fmt: skip
    return widest / 72 if tilted else 0


def make_higher(axes: Axes, height: float) -> None:
    """Give the picture of these axes at least this height in inches."""
    figure = axes.get_figure()
    assert isinstance(figure, Figure)
    figure.set_figheight(max(figure.get_figheight(), height))


def escaped(text: str) -> str:
    """Return a text that Matplotlib does not read as a formula."""
    return text.replace("$", r"\$")
