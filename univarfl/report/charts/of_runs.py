"""The charts of accuracy, loss and recall."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from univarfl.records.reader import Run
from univarfl.report.charts.base import (
    Bar,
    Bars,
    Cells,
    Chart,
    Figure,
    Plot,
    Series,
    mean_series,
    slug,
)
from univarfl.report.readings import LAST
from univarfl.report.settings import ALL, heading_of
from univarfl.report.summary import Summary

BARS = "Accuracy by method"
SWEPT = {"alpha": "alpha (smaller is more skewed)", "rho": "rho (share of clients in a round)"}
BAND = "mean over seeds, with a band of one standard deviation"
SPREAD = "After the last round: mean and standard deviation over seeds."
NOTES = {
    BARS: "After the last round: mean, standard deviation, and a dot for each seed. A second chart "
    "has the same weights with batch norm's statistics measured on the clients' images.",
    "Accuracy over the rounds": f"Accuracy of the global model: {BAND}.",
    "Loss over the rounds": f"Training cross-entropy of the participants: {BAND}.",
    "Accuracy over time": "Seconds are those of the rounds as recorded. Runs that shared a machine "
    "took longer.",
    "Recall by class": "After the last round, mean over seeds, in %.",
    "Accuracy against alpha": SPREAD,
    "Accuracy against rho": SPREAD,
}
Group = Mapping[str, Sequence[Run]]  # the runs of one setting by method


def charts(summary: Summary) -> Iterator[Chart]:
    """Yield every chart of the runs, section by section."""
    methods = list(dict.fromkeys(method for _, method in summary.counted))
    settings: dict[str, dict[str, list[Run]]] = {}
    for (setting, method), runs in summary.counted.items():
        settings.setdefault(setting, {})[method] = runs
    alone = len(summary.frame) == 1
    for section, name, figure_of in (
        (BARS, "bars", accuracy_bars),
        (BARS, "bars-exact", exact_bars),
        ("Accuracy over the rounds", "accuracy", accuracy_plot),
        ("Loss over the rounds", "loss", loss_plot),
        ("Accuracy over time", "time", time_plot),
        ("Recall by class", "recall", recall_cells),
    ):
        for setting, of in settings.items():
            figure = figure_of(of, methods)
            if figure and not (alone and section == BARS):
                title = "" if setting == ALL else setting
                yield Chart(section, title, f"{name}-{slug(setting)}", figure)
    for key, label in SWEPT.items():
        if key in summary.keys:
            yield from swept(summary.frame, summary.keys, key, label, methods)


def accuracy_plot(runs: Group, methods: Sequence[str]) -> Plot:
    """Return the accuracy of the global model by round."""
    series = []
    for method, of in runs.items():
        rounds, values = over_rounds(of, of[0].split, "accuracy")
        series.append(mean_series(method, methods.index(method), rounds, 100 * values))
    return Plot("round", f"{split_of(runs)} accuracy, %", series, whole_x=True)


def loss_plot(runs: Group, methods: Sequence[str]) -> Plot | None:
    """Return the training cross-entropy by round; None if no round has one."""
    series = []
    for method, of in runs.items():
        rounds, values = over_rounds(of, "train", "ce")
        if len(rounds):
            series.append(mean_series(method, methods.index(method), rounds, values))
    if not series:
        return None
    return Plot("round", "training cross-entropy", series, log_y=True, whole_x=True)


def time_plot(runs: Group, methods: Sequence[str]) -> Plot:
    """Return the accuracy by the duration of the rounds, both as means over seeds."""
    series = []
    for method, of in runs.items():
        rounds, values = over_rounds(of, of[0].split, "accuracy")
        _, seconds = over_rounds(of, "train", "seconds")
        spent = np.concatenate([[0.0], np.cumsum(seconds.mean(axis=0))])
        series.append(mean_series(method, methods.index(method), spent[rounds], 100 * values))
    return Plot("seconds in rounds", f"{split_of(runs)} accuracy, %", series)


def accuracy_bars(runs: Group, methods: Sequence[str]) -> Bars:
    """Return each method's last accuracy, with a point for each seed."""
    bars = []
    for method, of in runs.items():
        points = [
            (
                f"seed {run.config['seed']}",
                100 * run.series[run.split, "accuracy"][run.record.last_round],
            )
            for run in of
        ]
        bars.append(Bar(method, methods.index(method), points))
    return Bars(f"{split_of(runs)} accuracy after the last round, %", bars)


def exact_bars(runs: Group, methods: Sequence[str]) -> Bars | None:
    """Return each method's accuracy with batch norm's statistics of all images; None if unknown."""
    bars = [
        Bar(method, methods.index(method), points)
        for method, of in runs.items()
        if (points := exact_points(of))
    ]
    return Bars("test accuracy with statistics of all images, %", bars) if bars else None


def exact_points(runs: Sequence[Run]) -> list[tuple[str, float]]:
    """Return each run's seed and accuracy with statistics of all images, where it is known."""
    return [
        (f"seed {run.config['seed']}", 100 * scores["accuracy"])
        for run in runs
        if "accuracy" in (scores := run.record.exact_scores)
    ]


def recall_cells(runs: Group, methods: Sequence[str]) -> Cells | None:
    """Return the recall of each class after the last round, mean over seeds; None if unknown."""
    del methods
    classes = sorted({label for of in runs.values() for run in of for label in run.recall})
    if not classes:
        return None
    table = [
        [np.mean([run.recall[c][1] for run in of if c in run.recall] or [np.nan]) for c in classes]
        for of in runs.values()
    ]
    names = next(iter(runs.values()))[0].data.classes
    columns = [str(names[c]) for c in classes]
    values = 100 * np.array(table, dtype=float)
    return Cells("recall, %", "method", "class", list(runs), columns, values, (0.0, 100.0))


def swept(
    frame: pd.DataFrame, keys: Sequence[str], key: str, label: str, methods: Sequence[str]
) -> Iterator[Chart]:
    """Yield charts of last accuracy by one setting, one for each value of the others."""
    others = [other for other in keys if other != key]
    groups = frame.groupby(others, sort=False, dropna=False) if others else [((), frame)]
    for values, part in groups:
        if part[key].nunique() < 2:
            continue
        series = [
            swept_series(str(method), methods.index(str(method)), of.groupby(key)[LAST])
            for method, of in part.groupby("method", sort=False)
        ]
        setting = heading_of(tuple(zip(others, values, strict=True)))
        title = "" if setting == ALL else setting
        figure: Figure = Plot(
            label, "accuracy after the last round, %", series, log_x=key == "alpha"
        )
        yield Chart(f"Accuracy against {key}", title, f"{key}-{slug(setting)}", figure)


def swept_series(name: str, style: int, accuracies: "pd.api.typing.SeriesGroupBy") -> Series:
    """Return the mean and one standard deviation of accuracies, in %, by a setting's value."""
    points = accuracies.agg(["mean", "std"]).fillna(0) * 100
    mean, spread = points["mean"], points["std"]
    low, high = (mean - spread).tolist(), (mean + spread).tolist()
    return Series(name, style, points.index.tolist(), mean.tolist(), low, high)


def over_rounds(
    runs: Sequence[Run], split: str, metric: str
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the rounds that every run has of a metric, and its values [runs, rounds]."""
    series = [run.series.get((split, metric), {}) for run in runs]
    rounds = sorted(set.intersection(*(set(points) for points in series)))
    return np.array(rounds, int), np.array([[points[at] for at in rounds] for points in series])


def split_of(runs: Group) -> str:
    """Return the split that the accuracy of these runs is measured on."""
    return next(iter(runs.values()))[0].split
