"""The style of all pictures: readable on a phone, and by colour-blind people."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# Six colours of Okabe and Ito, and two dark ones. The numbers of colours, markers and dashes have
# no common divisor, so many methods get different combinations.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#882255", "#444444")
MARKERS = "os^Dv<>ph*X"
DASHES: Sequence[Any] = ("-", "--", "-.", ":", (0, (4, 1, 1, 1, 1, 1)))
SIZE = (5.2, 3.9)
LEGEND_ROWS, ROW_HEIGHT = (
    2,
    0.2,
)  # each further row of a legend makes the picture higher by so many inches
LONGEST_NAME, LONGEST_SLUG = 16, 80
STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "univarfl",  # equal records give equal files
}


@dataclass(frozen=True)
class Picture:
    """A picture of a report.

    Attributes:
        section: the heading of its section.
        title: what it shows.
        name: its file name without suffix.
        figure: the picture.
    """

    section: str
    title: str
    name: str
    figure: Figure

    def save(self, directory: Path) -> None:
        """Write the picture as PNG and SVG."""
        for suffix in ("png", "svg"):
            metadata = {"Date": None} if suffix == "svg" else {}
            self.figure.savefig(directory / f"{self.name}.{suffix}", dpi=160, metadata=metadata)


def empty_figure() -> tuple[Figure, Axes]:
    """Return an empty figure and its axes."""
    figure = Figure(figsize=SIZE, layout="constrained")
    return figure, figure.subplots()


def draw_line(
    axes: Axes, x: np.ndarray, values: np.ndarray, method: str, methods: Sequence[str]
) -> None:
    """Draw the mean of `values` [runs, x], with a band of one standard deviation."""
    colour, marker, dash = style_of(method, methods)
    mean = values.mean(axis=0)
    axes.plot(x, mean, color=colour, marker=marker, linestyle=dash, markersize=4, label=method,
              markevery=max(1, len(x) // 8), linewidth=1.6)  # fmt: skip
    if len(values) > 1:
        spread = values.std(axis=0, ddof=1)
        axes.fill_between(x, mean - spread, mean + spread, color=colour, alpha=0.15, linewidth=0)


def style_of(method: str, methods: Sequence[str]) -> tuple[str, str, Any]:
    """Return a method's colour, marker and dash, the same in every picture."""
    place = methods.index(method)
    return COLOURS[place % len(COLOURS)], MARKERS[place % len(MARKERS)], DASHES[place % len(DASHES)]


def finish(axes: Axes) -> bool:
    """Add grid and legend; return False if nothing was drawn."""
    handles, names = axes.get_legend_handles_labels()
    axes.grid(alpha=0.3)
    if handles:
        figure = axes.get_figure()
        assert isinstance(figure, Figure)
        columns = 3 if max(map(len, names)) <= LONGEST_NAME else 1
        more = max(0, -(-len(names) // columns) - LEGEND_ROWS)
        figure.set_figheight(figure.get_figheight() + ROW_HEIGHT * more)
        figure.legend(
            handles, names, loc="outside lower center", ncols=columns, frameon=False, fontsize=9
        )
    return bool(handles)


def clipped(name: str) -> str:
    """Return a name short enough for a column label, with dollar signs escaped."""
    short = name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"
    return short.replace("$", r"\$")


def slug(text: str) -> str:
    """Return a text as part of a file name."""
    plain = re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-").lower()
    if len(plain) <= LONGEST_SLUG and plain == text.replace(", ", "-").replace(" ", "-"):
        return plain
    return f"{plain[:LONGEST_SLUG]}-{hashlib.sha256(text.encode()).hexdigest()[:6]}"
