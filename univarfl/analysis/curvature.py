"""Curvature of the loss at the final global model, and its agreement between clients."""

import pandas as pd

from task.analysis.curvature import diagonal, direction_agreement, norm_difference
from univarfl.analysis.analysed_run import AnalysedRun
from univarfl.analysis.base import Measure


class Curvature(Measure):
    """Top Hessian eigenvalue and trace, H_N and H_D (FedAlign, Table 1)."""

    name = "curvature"
    title = "Curvature"
    note = (
        "Hessian of the cross-entropy at the final global model, on training images. The top "
        "eigenvalue and the trace are those of the federation's Hessian, each client weighted by "
        "its number of images; lower is flatter. H_N is the squared difference between the norms "
        "of two clients' Hessian diagonals (lower is more similar), and H_D the cosine of these "
        "diagonals (FedAlign, Eqs. 3 and 4)."
    )
    published = ("top_eigenvalue", "trace")  # the release defines the others in another way
    columns = ("top eigenvalue", "second eigenvalue", "trace", "H_N", "H_D")

    def unmet_requirement(self, analysed: AnalysedRun) -> str:
        """Return what is missing: what `diagonal` is exact for, or two clients."""
        if missing := analysed.missing_for_diagonal:
            return missing
        return "" if len(analysed.clients) > 1 else "the images of two clients"

    def measure(self, analysed: AnalysedRun) -> pd.DataFrame:
        """Return one row."""
        first, second = analysed.eigenpairs.values
        diagonals = [
            diagonal(analysed.model(), analysed.worker.images, positions)
            for positions in analysed.clients.values()
        ]
        traces = zip(analysed.shares, [float(of.sum()) for of in diagonals], strict=True)
        trace = sum(share * own for share, own in traces)
        row = (first, second, trace, norm_difference(diagonals), direction_agreement(diagonals))
        return pd.DataFrame([row], columns=list(self.columns))

    def run_values(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return the four values of FedAlign's Table 1."""
        return table.set_index("run")[["top eigenvalue", "trace", "H_N", "H_D"]]
