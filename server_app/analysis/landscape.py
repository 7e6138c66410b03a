"""The loss around the final global model, along the two steepest directions."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from server_app.analysis.base import Drawing, Measure, Tables
from server_app.analysis.subject import Subject
from server_app.report.canvas import blank
from task.analysis.landscape import losses_around

STEPS = tuple(np.linspace(-1, 1, 15).round(4).tolist())
LEVELS = 12


class Landscape(Measure):
    """Loss along the two top eigenvectors of the Hessian (FedAlign Fig. 1)."""

    name = "landscape"
    title = "Loss landscape"
    note = (
        "Cross-entropy on training images, each client weighted by how many it has, around the "
        "final global model (the cross), along the two top eigenvectors of its Hessian. The same "
        "levels of loss have the same colour only within a picture."
    )
    columns = ("first", "second", "loss")
    together = False

    def missing(self, subject: Subject) -> str:
        """It needs images."""
        return "" if subject.clients else "the clients' images"

    def measure(self, subject: Subject) -> pd.DataFrame:
        """A row for each point of the grid."""
        vectors = subject.eigenpairs.vectors
        model, images = subject.model(), subject.worker.images
        sets = list(subject.clients.values())
        points = losses_around(model, images, sets, subject.shares, vectors, STEPS)
        return pd.DataFrame(points, columns=list(self.columns))

    def draw(self, tables: Tables) -> Iterator[Drawing]:
        """Lines of equal loss."""
        for table in tables.values():
            grid = table.pivot_table("loss", "second", "first")
            figure, axes = blank()
            values = np.log10(np.maximum(grid.to_numpy(), 1e-6))
            lines = axes.contourf(grid.columns, grid.index, values, LEVELS, cmap="cividis")
            axes.plot(0, 0, "+", color="white", markersize=10)
            axes.set(
                xlabel="along the first eigenvector", ylabel="along the second", aspect="equal"
            )
            figure.colorbar(lines, label="log10 of the loss")
            yield Drawing("", figure)
