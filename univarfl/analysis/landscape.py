"""The loss around the final global model, along the two directions of largest curvature."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from task.analysis.landscape import losses_around
from univarfl.analysis.analysed_run import AnalysedRun
from univarfl.analysis.base import Drawing, Measure, Tables
from univarfl.report.charts.base import Cells

STEPS = tuple(np.linspace(-1, 1, 15).round(4).tolist())
LEAST_LOSS = 1e-6


class Landscape(Measure):
    """Loss along the two top eigenvectors of the Hessian (FedAlign, Fig. 1)."""

    name = "landscape"
    title = "Loss landscape"
    note = (
        "Cross-entropy on training images around the final global model (the middle), along the "
        "two top eigenvectors of its Hessian. Each client is weighted by its number of images. "
        "Colours can be compared within a chart, not between charts."
    )
    columns = ("first", "second", "loss")
    compares_runs = False

    def unmet_requirement(self, analysed: AnalysedRun) -> str:
        """Return what is missing: images of clients on this machine."""
        return "" if analysed.clients else "the clients' images"

    def measure(self, analysed: AnalysedRun) -> pd.DataFrame:
        """Return one row per point of the grid."""
        vectors = analysed.eigenpairs.vectors
        model, images = analysed.model(), analysed.worker.images
        sets = list(analysed.clients.values())
        points = losses_around(model, images, sets, analysed.shares, vectors, STEPS)
        return pd.DataFrame(points, columns=list(self.columns))

    def draw(self, tables: Tables) -> Iterator[Drawing]:
        """Yield a map of the loss."""
        for table in tables.values():
            grid = table.pivot_table("loss", "second", "first")
            rows = [f"{place:g}" for place in grid.index[::-1]]  # the largest is at the top
            columns = [f"{place:g}" for place in grid.columns]
            values = np.maximum(grid.to_numpy()[::-1], LEAST_LOSS)
            axes = ("second eigenvector", "first eigenvector")
            yield Drawing("", Cells("loss", *axes, rows, columns, values, log=True))
