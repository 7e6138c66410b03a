"""A run's curves, drawn from its ``rounds.csv``."""

import csv
from collections import defaultdict
from itertools import cycle
from pathlib import Path

from server_app.progress import NOT_LOSSES

Series = dict[tuple[str, str], list[tuple[int, float]]]

ACCURACIES = {"test": ("#0072B2", "-"), "validation": ("#E69F00", "--")}
LOSS_STYLES = (("#0072B2", "-"), ("#009E73", "--"), ("#D55E00", ":"), ("#CC79A7", "-."))


def read_series(directory: Path) -> Series:
    """Every metric over the rounds, by (split, metric)."""
    series: Series = defaultdict(list)
    with (directory / "rounds.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            point = (int(row["round"]), float(row["value"]))
            series[row["split"], row["metric"]].append(point)
    return series


def draw_curves(directory: Path) -> Path:
    """Draw accuracy and loss terms over the rounds into ``curves.png``."""
    # Imported here because it takes a second, which a run that has yet to begin need not wait for.
    from matplotlib.figure import Figure  # noqa: PLC0415

    series = read_series(directory)
    figure = Figure(figsize=(10, 4), layout="constrained")
    accuracy, loss = figure.subplots(1, 2)
    for split, (colour, line) in ACCURACIES.items():
        if points := series.get((split, "accuracy")):
            accuracy.plot(*zip(*points, strict=True), line, color=colour, marker=".", label=split)
    terms = [name for split, name in series if split == "train" and name not in NOT_LOSSES]
    for name, (colour, line) in zip(terms, cycle(LOSS_STYLES), strict=False):
        points = series["train", name]
        loss.plot(*zip(*points, strict=True), line, color=colour, marker=".", label=name)
    accuracy.set(xlabel="round", ylabel="accuracy of the global model", ylim=(0, 1))
    loss.set(xlabel="round", ylabel="training loss terms, unweighted", yscale="log")
    for axes in (accuracy, loss):
        axes.grid(alpha=0.3)
        if axes.lines:
            axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=4, frameon=False)
            axes.xaxis.get_major_locator().set_params(integer=True)
    figure.suptitle(directory.name)
    path = directory / "curves.png"
    figure.savefig(path, dpi=120)
    return path
