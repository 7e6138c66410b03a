"""H_N and H_D as FedAlign's program computes them."""

import pandas as pd
import torch

from server_app.analysis.analysed_run import KEPT_MODELS, AnalysedRun
from server_app.analysis.base import Measure
from task.analysis.curvature import (
    Hessian,
    direction_agreement,
    norm_difference,
    traces_of_tensors,
)
from task.seeding import torch_generator

BATCHES = 10


class ReleaseCurvature(Measure):
    """H_N and H_D of FedAlign's Table 1, by the definition of its program."""

    name = "release_curvature"
    title = "Curvature by the release of FedAlign"
    note = (
        "H_N and H_D as FedAlign's program computes them. Its Hessians are those of each client's "
        "model after local training (here in the last kept round), on ten batches of all clients' "
        "images. In place of the diagonal it takes one number per layer's weight or bias: "
        "Hutchinson's estimate of its block's trace. Its means include the pairs of a client with "
        "itself. Its images are augmented; here they are not."
    )
    published = ("H_N", "H_D")
    columns = ("H_N", "H_D")

    def unmet_requirement(self, analysed: AnalysedRun) -> str:
        """Return what is missing: kept models, or images of clients on this machine."""
        if not analysed.kept:
            return KEPT_MODELS
        if not analysed.last_client_models:
            return "a client's model in the last kept round"
        return "" if analysed.clients else "the clients' images"

    def measure(self, analysed: AnalysedRun) -> pd.DataFrame:
        """Return one row."""
        positions = analysed.mixed(BATCHES * analysed.config.batch_size)
        shares = torch.full((len(positions),), 1 / len(positions))
        traces = []
        for client, weights in analysed.last_client_models.items():
            generator = torch_generator(analysed.config.seed, "analysis", "traces", client)
            model = analysed.model(weights)
            hessian = Hessian(model, analysed.worker.images, positions, shares)
            traces.append(traces_of_tensors(hessian, generator))
        row = (norm_difference(traces, own=True), direction_agreement(traces, own=True))
        return pd.DataFrame([row], columns=list(self.columns))

    def run_values(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return both values."""
        return table.set_index("run")[list(self.columns)]
