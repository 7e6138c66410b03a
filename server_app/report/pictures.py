"""The pictures of accuracy, loss and recall."""

import textwrap
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from server_app.report.canvas import (
    Picture,
    clipped,
    draw_line,
    empty_figure,
    finish,
    slug,
    style_of,
)
from server_app.report.settings import heading_of
from server_app.report.summary import LAST, Summary
from server_app.runs.records.reader import Run

MOST_NUMBERS = 12  # with more classes, recall is not written into the squares
SWEPT = {"alpha": "alpha (smaller is more skewed)", "rho": "rho (share of clients in a round)"}


def pictures(summary: Summary) -> Iterator[Picture]:
    """Yield every picture of the runs; draw and save them in `canvas.STYLE`."""
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
            figure, axes = empty_figure()
            if draw(axes, runs, methods):
                yield Picture(section, setting, f"{name}-{slug(setting)}", figure)
    for key, label in SWEPT.items():
        if key in summary.keys:
            yield from swept(summary.frame, summary.keys, key, label, methods)


def draw_accuracy(axes: Axes, runs: dict[str, list[Run]], methods: Sequence[str]) -> bool:
    """Draw the accuracy of the global model by round: mean and standard deviation over seeds."""
    for method, of in runs.items():
        rounds, values = over_rounds(of, of[0].split, "accuracy")
        draw_line(axes, rounds, 100 * values, method, methods)
    axes.set(xlabel="round", ylabel=f"{split_of(runs)} accuracy, %")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    return finish(axes)


def draw_loss(axes: Axes, runs: dict[str, list[Run]], methods: Sequence[str]) -> bool:
    """Draw the training cross-entropy by round: mean and standard deviation over seeds."""
    for method, of in runs.items():
        rounds, values = over_rounds(of, "train", "ce")
        if len(rounds):
            draw_line(axes, rounds, values, method, methods)
    axes.set(xlabel="round", ylabel="training cross-entropy", yscale="log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    return finish(axes)


def draw_time(axes: Axes, runs: dict[str, list[Run]], methods: Sequence[str]) -> bool:
    """Draw accuracy by the duration of the rounds in seconds, both as means over seeds."""
    for method, of in runs.items():
        rounds, values = over_rounds(of, of[0].split, "accuracy")
        _, seconds = over_rounds(of, "train", "seconds")
        spent = np.concatenate([[0.0], np.cumsum(seconds.mean(axis=0))])
        draw_line(axes, spent[rounds], 100 * values, method, methods)
    axes.set(xlabel="seconds in rounds", ylabel=f"{split_of(runs)} accuracy, %")
    return finish(axes)


def draw_bars(axes: Axes, runs: dict[str, list[Run]], methods: Sequence[str]) -> bool:
    """Draw each method's last accuracy: mean, standard deviation, and a dot for each seed."""
    for place, (method, of) in enumerate(runs.items()):
        points = [100 * run.series[run.split, "accuracy"][run.config["rounds"]] for run in of]
        colour, _, _ = style_of(method, methods)
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
    """Draw the recall of each class after the last round, mean over seeds."""
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
    """Yield pictures of last accuracy by one setting, one for each value of the others."""
    others = [other for other in keys if other != key]
    for values, part in (
        frame.groupby(others, sort=False, dropna=False) if others else [((), frame)]
    ):
        if part[key].nunique() < 2:
            continue
        figure, axes = empty_figure()
        for method, of in part.groupby("method", sort=False):
            points = of.groupby(key)[LAST].agg(["mean", "std"]).fillna(0) * 100
            colour, marker, dash = style_of(str(method), methods)
            axes.errorbar(points.index, points["mean"], points["std"], color=colour, marker=marker,
                          linestyle=dash, capsize=3, label=method)  # fmt: skip
        axes.set(xlabel=label, ylabel="accuracy after the last round, %")
        if key == "alpha":
            axes.set_xscale("log")
        ticks = sorted(part[key].unique())
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()
        finish(axes)
        title = heading_of(tuple(zip(others, values, strict=True)))
        yield Picture(f"Accuracy against {key}", title, f"{key}-{slug(title)}", figure)


def name_rows(axes: Axes, runs: dict[str, list[Run]]) -> None:
    """Label the rows with the methods; long names take several lines."""
    axes.set_yticks(range(len(runs)), [textwrap.fill(name, 18) for name in runs])


def over_rounds(runs: Sequence[Run], split: str, metric: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the rounds that every run has of a metric, and its values [runs, rounds]."""
    series = [run.series.get((split, metric), {}) for run in runs]
    rounds = sorted(set.intersection(*(set(points) for points in series)))
    return np.array(rounds, int), np.array([[points[at] for at in rounds] for points in series])


def split_of(runs: dict[str, list[Run]]) -> str:
    """Return the split that the accuracy of these runs is measured on."""
    return next(iter(runs.values()))[0].split
