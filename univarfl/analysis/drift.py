"""Client drift: the norms of the updates of a round, and the distances between them."""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from task.analysis.drift import Drift, drifts
from task.optim.parameters import trained_parameters
from univarfl.analysis.analysed_run import KEPT_MODELS, AnalysedRun
from univarfl.analysis.base import Drawing, Measure, Tables, draw_lines, rows_of_last_round
from univarfl.records.round_models import KeptModels

SHOWN = {
    "cosine": "cosine between clients' updates",
    "distance": "distance between clients' updates",
}


class ClientDrift(Measure):
    """L2 norm of each client's update, and its cosine with and distance from the others."""

    name = "drift"
    title = "Client drift"
    note = (
        "Length is the L2 norm of a client's update. Cosine and distance are means over pairs of a "
        "round's participants; a cosine of 1 is the same direction, 0 is orthogonal. The table "
        "has the last kept round."
    )
    columns = ("round", "client", *Drift._fields)
    uses_images = False
    number_format = ".3f"

    def unmet_requirement(self, analysed: AnalysedRun) -> str:
        """Return what is missing: kept models."""
        return "" if analysed.kept else KEPT_MODELS

    def measure(self, analysed: AnalysedRun) -> pd.DataFrame:
        """Return one row per round and client."""
        names = list(trained_parameters(analysed.worker.model))
        rows = []
        for server_round, models in analysed.rounds():
            by_client = drifts(list(models.clients), client_updates(models, names))
            rows += [(server_round, client, *drift) for client, drift in by_client.items()]
        return pd.DataFrame(rows, columns=list(self.columns))

    def draw(self, tables: Tables) -> Iterator[Drawing]:
        """Yield cosine and distance over the rounds."""
        for column, label in SHOWN.items():
            yield from draw_lines(tables, column, "round", label, label)

    def run_values(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return the means over the participants of the last kept round."""
        return rows_of_last_round(table).groupby("run")[list(Drift._fields)].mean()


def client_updates(models: KeptModels, names: Sequence[str]) -> Iterator[Tensor]:
    """Yield all clients' updates of each parameter in turn, [clients, numbers], float64."""
    for name in names:
        start = models.received[name].astype(np.float64).ravel()
        rows = [own[name].astype(np.float64).ravel() - start for own in models.clients.values()]
        yield torch.from_numpy(np.reshape(rows, (len(rows), start.size)))
