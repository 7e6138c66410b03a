"""Client drift: how far a round's updates go, and how far apart."""

from collections.abc import Iterator

import pandas as pd
import torch
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from server_app.analysis.base import Drawing, Measure, Tables
from server_app.analysis.subject import Subject
from server_app.report.canvas import blank, finish, line
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
        return "" if subject.kept else "models of single rounds (train with watch.models_every=5)"

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
            figure, axes = blank()
            for label, table in tables.items():
                wide = table.pivot_table(column, "run", "round").dropna(axis=1)
                if wide.size:
                    line(axes, wide.columns.to_numpy(), wide.to_numpy(), label, list(tables))
            axes.set(xlabel="round", ylabel=label_of)
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
            if finish(axes):
                yield Drawing(label_of, figure)


def flat(weights: Weights, names: list[str]) -> Tensor:
    """Some of the weights as one vector, float64."""
    chosen = to_tensors({name: weights[name] for name in names})
    return torch.cat([value.double().flatten() for value in chosen.values()])
