"""The charts of a benchmark: one of each kind for each cell."""

from collections.abc import Iterator, Sequence

import pandas as pd

from univarfl.report.charts.base import Chart, slug
from univarfl.report.charts.of_runs import BARS, accuracy_bars, accuracy_plot, time_plot
from univarfl.sweeps.benchmark.commands import TUNED

KINDS = (
    (BARS, "bars", accuracy_bars),
    ("Accuracy over the rounds", "accuracy", accuracy_plot),
    ("Accuracy over time", "time", time_plot),
)


def charts_of(frame: pd.DataFrame, cells: Sequence[str]) -> Iterator[Chart]:
    """Yield the charts of the tuned rows.

    Args:
        frame: `Tables.frame`.
        cells: the labels of the cells, in their order.
    """
    part = frame[frame["kind"] == TUNED]
    methods = list(part["method"].unique())
    for section, name, figure_of in KINDS:
        for cell in cells:
            of_cell = part[part["cell"] == cell].groupby("method", sort=False)["run"]
            found = {str(method): list(of.dropna()) for method, of in of_cell}
            runs = {method: of for method, of in found.items() if of}
            if runs:
                yield Chart(section, cell, f"{name}-{slug(cell)}", figure_of(runs, methods))
