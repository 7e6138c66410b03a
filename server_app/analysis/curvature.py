"""Curvature of the loss at the final global model, and how well clients agree on it."""

import pandas as pd

from server_app.analysis.base import Measure
from server_app.analysis.subject import Subject
from task.analysis.curvature import diagonal, direction_agreement, norm_difference


class Curvature(Measure):
    """Top Hessian eigenvalue and trace, H_N and H_D (FedAlign Table 1)."""

    name = "curvature"
    title = "Curvature"
    note = (
        "Of the cross-entropy at the final global model, on training images: the top eigenvalue "
        "and the trace of the federation's Hessian, to which each client adds by how many images "
        "it has (lower is flatter), and between clients' Hessians H_N, the squared difference of "
        "their diagonals' norms (lower is more alike), and H_D, the cosine of the diagonals "
        "(FedAlign, Eqs. 3 and 4)."
    )
    columns = ("top eigenvalue", "second eigenvalue", "trace", "H_N", "H_D")

    def missing(self, subject: Subject) -> str:
        """It needs two clients' images, and the network for which `diagonal` holds."""
        if subject.config.network().norm != "batch":
            return "model.norm=batch"
        return "" if len(subject.clients) > 1 else "two clients' images"

    def measure(self, subject: Subject) -> pd.DataFrame:
        """One row."""
        first, second = subject.eigenpairs.values
        found = [
            diagonal(subject.model(), subject.worker.images, positions)
            for positions in subject.clients.values()
        ]
        traces = zip(subject.shares, [float(of.sum()) for of in found], strict=True)
        trace = sum(share * own for share, own in traces)
        row = (first, second, trace, norm_difference(found), direction_agreement(found))
        return pd.DataFrame([row], columns=list(self.columns))

    def by_run(self, table: pd.DataFrame) -> pd.DataFrame:
        """FedAlign's four."""
        return table.set_index("run")[["top eigenvalue", "trace", "H_N", "H_D"]]
