"""Client drift: how far a round's updates go, and how far apart."""

from collections.abc import Iterator

import pandas as pd
import torch
from torch import Tensor

from server_app.analysis.base import Drawing, Measure, Tables, lines
from server_app.analysis.subject import KEPT_MODELS, Subject
from server_app.weights import Weights, to_tensors
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
        "direction, 0 none in common."
    )
    columns = ("round", "client", *Drift._fields)

    def missing(self, subject: Subject) -> str:
        """It needs kept models."""
        return "" if subject.kept else KEPT_MODELS

    def measure(self, subject: Subject) -> pd.DataFrame:
        """A row for each round and client."""
        names = list(trained_parameters(subject.worker.model))
        rows = []
        for server_round, models in subject.rounds():
            start = flat(models.received, names)
            updates = {who: flat(own, names) - start for who, own in models.clients.items()}
            if updates:
                rows += [(server_round, who, *found) for who, found in drifts(updates).items()]
        return pd.DataFrame(rows, columns=list(self.columns))

    def draw(self, tables: Tables) -> Iterator[Drawing]:
        """Cosine and distance over the rounds."""
        for column, label_of in SHOWN.items():
            yield from lines(tables, column, "round", label_of, label_of)


def flat(weights: Weights, names: list[str]) -> Tensor:
    """Some of the weights as one vector, float64."""
    chosen = to_tensors({name: weights[name] for name in names})
    return torch.cat([value.double().flatten() for value in chosen.values()])
