"""A run's curves, drawn from its ``rounds.csv``."""

import logging
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

from server_app.runs.records.metrics import OF_ROUNDS
from server_app.runs.records.tables import ROUNDS, read_series
from server_app.tracking.closing import CURVES
from task.error_messages import describe_error
from task.machine.files import draft_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZE = (10, 4)  # inches
ACCURACIES = {"test": ("#0072B2", "-"), "validation": ("#E69F00", "--")}
LOSS_STYLES = (("#0072B2", "-"), ("#009E73", "--"), ("#D55E00", ":"), ("#CC79A7", "-."))

logger = logging.getLogger("univarfl")


def draw_curves(directory: Path) -> None:
    """Draw accuracy and loss terms over the rounds into ``curves.png``.

    A picture that cannot be drawn or written costs a warning, and not the trained model.
    """
    # Imported here because it takes a second, and a run needs it only at its end.
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=SIZE, layout="constrained")
    try:
        draw_into(figure, directory)
        with draft_of(directory / CURVES) as draft:
            figure.savefig(draft, dpi=120, format="png")
    except Exception as error:
        logger.warning("%s is not drawn: %s", CURVES, describe_error(error))


def draw_into(figure: "Figure", directory: Path) -> None:
    """Draw a run's accuracy and loss terms over the rounds.

    Raises:
        RecordError: ``rounds.csv`` cannot be read.
    """
    series = read_series(directory / ROUNDS)
    accuracy, loss = figure.subplots(1, 2)
    for split, (colour, line) in ACCURACIES.items():
        if points := series.get((split, "accuracy")):
            accuracy.plot(
                *zip(*points.items(), strict=True), line, color=colour, marker=".", label=split
            )
    terms = [name for split, name in series if split == "train" and name not in OF_ROUNDS]
    for name, (colour, line) in zip(terms, cycle(LOSS_STYLES), strict=False):
        points = series["train", name]
        loss.plot(*zip(*points.items(), strict=True), line, color=colour, marker=".", label=name)
    accuracy.set(xlabel="round", ylabel="accuracy of the global model", ylim=(0, 1))
    loss.set(xlabel="round", ylabel="training loss terms, unweighted", yscale="log")
    for axes in (accuracy, loss):
        axes.grid(alpha=0.3)
        if axes.lines:
            axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=4, frameon=False)
            axes.xaxis.get_major_locator().set_params(integer=True)
    figure.suptitle(directory.name)
