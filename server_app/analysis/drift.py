"""Client drift: how far a round's updates go, and how far apart."""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from server_app.analysis.base import Drawing, Measure, Tables, last_kept, lines
from server_app.analysis.subject import KEPT_MODELS, Subject
from server_app.round_models import RoundModels
from task.analysis.drift import Drift, drifts
from task.methods.base import trained_parameters

SHOWN = {
    "cosine": "cosine between clients' updates",
    "distance": "distance between clients' updates",
}


class ClientDrift(Measure):
    """Length of each client's update, and its cosine with and distance from the others'."""

    name = "drift"
    title = "Client drift"
    note = (
        "Between the updates of a round's participants, mean over pairs: a cosine of 1 is the same "
        "direction, 0 none in common. The table has the last round that was kept."
    )
    columns = ("round", "client", *Drift._fields)
    sampled = False
    form = ".3f"

    def missing(self, subject: Subject) -> str:
        """It needs kept models."""
        return "" if subject.kept else KEPT_MODELS

    def measure(self, subject: Subject) -> pd.DataFrame:
        """A row for each round and client."""
        names = list(trained_parameters(subject.worker.model))
        rows = []
        for server_round, models in subject.rounds():
            found = drifts(list(models.clients), updates(models, names))
            rows += [(server_round, who, *drift) for who, drift in found.items()]
        return pd.DataFrame(rows, columns=list(self.columns))

    def draw(self, tables: Tables) -> Iterator[Drawing]:
        """Cosine and distance over the rounds."""
        for column, label_of in SHOWN.items():
            yield from lines(tables, column, "round", label_of, label_of)

    def by_run(self, table: pd.DataFrame) -> pd.DataFrame:
        """The last kept round's, mean over its participants."""
        return last_kept(table).groupby("run")[list(Drift._fields)].mean()


def updates(models: RoundModels, names: Sequence[str]) -> Iterator[Tensor]:
    """Parameter by parameter, how far each client moved it, [clients, numbers], float64."""
    for name in names:
        start = models.received[name].astype(np.float64).ravel()
        rows = [own[name].astype(np.float64).ravel() - start for own in models.clients.values()]
        yield torch.from_numpy(np.reshape(rows, (len(rows), start.size)))
