"""H_N and H_D as FedAlign's program computes them."""

import pandas as pd

from task.analysis.curvature import (
    diagonal,
    direction_agreement,
    norm_difference,
    traces_of_tensors,
)
from univarfl.analysis.analysed_run import AnalysedRun
from univarfl.analysis.base import Measure

BATCHES = 10


class ReleaseCurvature(Measure):
    """H_N and H_D of FedAlign's Table 1, by the definition of its program."""

    name = "release_curvature"
    title = "Curvature by the release of FedAlign"
    note = (
        "H_N and H_D as FedAlign's program computes them. Its Hessians are those of each client's "
        "model after local training (here in the last kept round), on ten batches of all clients' "
        "images. In place of the diagonal it takes one number per layer's weight or bias: the "
        "trace of its block, which it estimates with random vectors; here it is exact. Its means "
        "include the pairs of a client with itself. Its images are augmented; here they are not."
    )
    published = ("H_N", "H_D")
    columns = ("H_N", "H_D")

    def unmet_requirement(self, analysed: AnalysedRun) -> str:
        """Return what is missing: what `diagonal` is exact for, kept models, or images."""
        if missing := analysed.missing_for_diagonal:
            return missing
        if analysed.missing_client_models:
            return analysed.missing_client_models
        return "" if analysed.clients else "the clients' images"

    def measure(self, analysed: AnalysedRun) -> pd.DataFrame:
        """Return one row."""
        positions = analysed.mixed(BATCHES * analysed.config.batch_size)
        traces = []
        for weights in analysed.last_client_models.values():
            model = analysed.model(weights)
            of_all = diagonal(model, analysed.worker.images, positions)
            traces.append(traces_of_tensors(model, of_all))
        row = (norm_difference(traces, own=True), direction_agreement(traces, own=True))
        return pd.DataFrame([row], columns=list(self.columns))

    def run_values(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return both values."""
        return table.set_index("run")[list(self.columns)]
