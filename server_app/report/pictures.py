"""The report's pictures: small enough for a phone, in colours that the colour-blind tell apart."""

import hashlib
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from server_app.report.records import Run
from server_app.report.settings import told
from server_app.report.summary import LAST, Summary

# Six colours of Okabe and Ito, and a dark one; a marker and a dash tell what colour does not.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#882255")
MARKERS = "os^Dv<>ph*X"
DASHES = ("-", "--", "-.", ":")
SIZE = (5.2, 3.9)
MOST_NUMBERS = 12  # classes whose recall is written into its square
LONGEST_NAME, LONGEST_SLUG = 16, 80
SWEPT = {"alpha": "alpha: small is skewed", "rho": "rho: share of the clients in a round"}
STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "univarfl",  # the same records, the same file
}


@dataclass(frozen=True)
class Picture:
    """A picture and what to say of it.

    Attributes:
        section: the heading it belongs under.
        title: what it shows of which setting.
        name: its file's, without a suffix.
        figure: the picture.
    """

    section: str
    title: str
    name: str
    figure: Figure

    def save(self, directory: Path) -> None:
        """Write it as PNG and as SVG."""
        for suffix in ("png", "svg"):
            metadata = {"Date": None} if suffix == "svg" else {}
            self.figure.savefig(directory / f"{self.name}.{suffix}", dpi=160, metadata=metadata)


def pictures(summary: Summary) -> Iterator[Picture]:
    """Every picture that the runs give; to be drawn and saved in `STYLE`."""
    methods = list(dict.fromkeys(method for _, method in summary.counted))
    settings = list(dict.fromkeys(setting for setting, _ in summary.counted))
    for setting in settings:
        runs = {method: found for (at, method), found in summary.counted.items() if at == setting}
        for section, name, draw in (
            ("Accuracy by method", "bars", draw_bars),
            ("Accuracy over the rounds", "accuracy", draw_accuracy),
            ("Loss over the rounds", "loss", draw_loss),
            ("Accuracy over time", "time", draw_time),
            ("Recall by class", "recall", draw_recall),
        ):
            figure, axes = blank()
            if draw(axes, runs, methods):
                yield Picture(section, setting, f"{name}-{slug(setting)}", figure)
    for key, label in SWEPT.items():
        if key in summary.keys:
            yield from swept(summary.frame, summary.keys, key, label, methods)


def draw_accuracy(axes: Axes, runs: dict[str, list[Run]], methods: Sequence[str]) -> bool:
    """Accuracy of the global model by round: mean over seeds, and a band of one deviation."""
    for method, of in runs.items():
        rounds, values = over_rounds(of, of[0].split, "accuracy")
        line(axes, rounds, 100 * values, method, methods)
    axes.set(xlabel="round", ylabel=f"{split_of(runs)} accuracy, %")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return finish(axes)


def draw_loss(axes: Axes, runs: dict[str, list[Run]], methods: Sequence[str]) -> bool:
    """The clients' cross-entropy by round, in the same way."""
    for method, of in runs.items():
        rounds, values = over_rounds(of, "train", "ce")
        if len(rounds):
            line(axes, rounds, values, method, methods)
    axes.set(xlabel="round", ylabel="training cross-entropy", yscale="log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return finish(axes)


def draw_time(axes: Axes, runs: dict[str, list[Run]], methods: Sequence[str]) -> bool:
    """Accuracy by the seconds that the rounds had taken, both as means over seeds."""
    for method, of in runs.items():
        rounds, values = over_rounds(of, of[0].split, "accuracy")
        _, seconds = over_rounds(of, "train", "seconds")
        spent = np.concatenate([[0.0], np.cumsum(seconds.mean(axis=0))])
        line(axes, spent[rounds], 100 * values, method, methods)
    axes.set(xlabel="seconds in rounds", ylabel=f"{split_of(runs)} accuracy, %")
    return finish(axes)


def draw_bars(axes: Axes, runs: dict[str, list[Run]], methods: Sequence[str]) -> bool:
    """The last round's accuracy of each method: mean, one deviation, and each seed as a dot."""
    for place, (method, of) in enumerate(runs.items()):
        points = [100 * run.series[run.split, "accuracy"][run.config["rounds"]] for run in of]
        colour, _, _ = look(method, methods)
        spread = np.std(points, ddof=1) if len(points) > 1 else 0
        axes.barh(place, np.mean(points), xerr=spread, color=colour, alpha=0.65, capsize=3)
        axes.plot(points, [place + 0.2] * len(points), "o", color="black", markersize=3)
        axes.annotate(f"{np.mean(points):.1f}", (1, place), (4, 0), ("axes fraction", "data"),
                      textcoords="offset points", va="center", fontweight="bold")  # fmt: skip
    name_rows(axes, runs)
    axes.invert_yaxis()
    axes.set(xlabel=f"{split_of(runs)} accuracy after the last round, %", xlim=(0, 100))
    return True


def draw_recall(axes: Axes, runs: dict[str, list[Run]], methods: Sequence[str]) -> bool:
    """Recall of each class after the last round, mean over seeds."""
    del methods
    classes = sorted({label for of in runs.values() for run in of for label in run.recall})
    if not classes:
        return False
    table = np.array(
        [
            [
                np.mean([run.recall[c][1] for run in of if c in run.recall] or [np.nan])
                for c in classes
            ]
            for of in runs.values()
        ]
    )
    axes.imshow(100 * table, cmap="cividis", vmin=0, vmax=100, aspect="auto")
    few = len(classes) <= MOST_NUMBERS
    names = next(iter(runs.values()))[0].record["data"]["classes"]
    if few:
        axes.set_xticks(
            range(len(classes)), [clipped(str(names[c])) for c in classes], rotation=60, ha="right"
        )
        for row, column in np.ndindex(table.shape):
            value = 100 * table[row, column]
            colour = "white" if value < 60 else "black"
            axes.annotate(f"{value:.0f}", (column, row), ha="center", va="center",
                          color=colour, fontsize=8)  # fmt: skip
    name_rows(axes, runs)
    axes.set(
        xlabel="class" if few else f"the {len(classes)} classes; bright is 100 % recall, dark 0"
    )
    axes.spines[:].set_visible(False)
    return True


def swept(
    frame: pd.DataFrame, keys: Sequence[str], key: str, label: str, methods: Sequence[str]
) -> Iterator[Picture]:
    """Last accuracy against a swept setting, a picture for each combination of the others."""
    others = [other for other in keys if other != key]
    for values, part in (
        frame.groupby(others, sort=False, dropna=False) if others else [((), frame)]
    ):
        if part[key].nunique() < 2:
            continue
        figure, axes = blank()
        for method, of in part.groupby("method", sort=False):
            points = of.groupby(key)[LAST].agg(["mean", "std"]).fillna(0) * 100
            colour, marker, dash = look(str(method), methods)
            axes.errorbar(points.index, points["mean"], points["std"], color=colour, marker=marker,
                          linestyle=dash, capsize=3, label=method)  # fmt: skip
        axes.set(xlabel=label, ylabel="accuracy after the last round, %")
        if key == "alpha":
            axes.set_xscale("log")
        ticks = sorted(part[key].unique())
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()
        finish(axes)
        title = told(tuple(zip(others, values, strict=True)))
        yield Picture(f"Accuracy against {key}", title, f"{key}-{slug(title)}", figure)


def name_rows(axes: Axes, runs: dict[str, list[Run]]) -> None:
    """The methods down the left side, long names in several lines."""
    axes.set_yticks(range(len(runs)), [textwrap.fill(name, 18) for name in runs])


def blank() -> tuple[Figure, Axes]:
    """An empty picture."""
    figure = Figure(figsize=SIZE, layout="constrained")
    return figure, figure.subplots()


def over_rounds(runs: Sequence[Run], split: str, metric: str) -> tuple[np.ndarray, np.ndarray]:
    """A metric's rounds, and its values [runs, rounds], at the rounds that every run has."""
    series = [run.series.get((split, metric), {}) for run in runs]
    rounds = sorted(set.intersection(*(set(points) for points in series)))
    return np.array(rounds, int), np.array([[points[at] for at in rounds] for points in series])


def line(
    axes: Axes, x: np.ndarray, values: np.ndarray, method: str, methods: Sequence[str]
) -> None:
    """A mean and a band of one standard deviation about it."""
    colour, marker, dash = look(method, methods)
    mean = values.mean(axis=0)
    axes.plot(x, mean, color=colour, marker=marker, linestyle=dash, markersize=4, label=method,
              markevery=max(1, len(x) // 8), linewidth=1.6)  # fmt: skip
    if len(values) > 1:
        spread = values.std(axis=0, ddof=1)
        axes.fill_between(x, mean - spread, mean + spread, color=colour, alpha=0.15, linewidth=0)


def look(method: str, methods: Sequence[str]) -> tuple[str, str, str]:
    """A method's colour, marker and dash, the same in every picture."""
    place = methods.index(method)
    return COLOURS[place % len(COLOURS)], MARKERS[place % len(MARKERS)], DASHES[place % len(DASHES)]


def finish(axes: Axes) -> bool:
    """Grid and legend; False if nothing was drawn."""
    handles, names = axes.get_legend_handles_labels()
    axes.grid(alpha=0.3)
    if handles:
        figure = axes.get_figure()
        assert isinstance(figure, Figure)
        columns = 3 if max(map(len, names)) <= LONGEST_NAME else 1
        figure.legend(
            handles, names, loc="outside lower center", ncols=columns, frameon=False, fontsize=9
        )
    return bool(handles)


def split_of(runs: dict[str, list[Run]]) -> str:
    """By what these runs are judged."""
    return next(iter(runs.values()))[0].split


def clipped(name: str) -> str:
    """A name short enough to stand under a column, whose dollars are no mathematics."""
    short = name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"
    return short.replace("$", r"\$")


def slug(text: str) -> str:
    """A text as part of a file's name."""
    plain = re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-").lower()
    if len(plain) <= LONGEST_SLUG and plain == text.replace(", ", "-").replace(" ", "-"):
        return plain
    return f"{plain[:LONGEST_SLUG]}-{hashlib.sha256(text.encode()).hexdigest()[:6]}"
