"""Singular values of the classifier: how many directions it still tells classes apart by."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.ticker import LogLocator, NullLocator

from server_app.analysis.base import Drawing, Measure, Tables, last_kept
from server_app.analysis.subject import Subject
from server_app.report.canvas import blank, finish, line
from server_app.weights import Readable

CLASSIFIER, GLOBAL = "classifier.weight", "global"
NEAR = 0.4


class SingularValues(Measure):
    """The classifier's singular values, of the global and the clients' models (UniVarFL Fig. 1)."""

    name = "singular_values"
    title = "Singular values of the classifier"
    note = (
        "Of the classifier's weights, each divided by the largest, so that a steep line is a "
        "classifier of few directions: the final global model, and the clients' after their local "
        "training in the last round that was kept (mean over clients)."
    )
    columns = ("round", "model", "index", "value")
    words = ("model",)
    sampled = False

    def measure(self, subject: Subject) -> pd.DataFrame:
        """A row for each model and singular value."""
        rows: list[tuple[int, str, int, float]] = []
        for server_round, models in subject.rounds():
            named = {f"client {client}": own for client, own in models.clients.items()}
            for who, weights in {**named, GLOBAL: models.aggregated}.items():
                rows += [(server_round, who, *pair) for pair in enumerate(values_of(weights), 1)]
        if subject.last_round not in subject.kept:
            final = enumerate(values_of(subject.weights), 1)
            rows += [(subject.last_round, GLOBAL, *pair) for pair in final]
        return pd.DataFrame(rows, columns=list(self.columns))

    def draw(self, tables: Tables) -> Iterator[Drawing]:
        """The last values of each: one picture of global models, one of clients'."""
        for title, of_clients in (("global model", False), ("clients' models", True)):
            figure, axes = blank()
            for label, table in tables.items():
                part = table[(table["model"] != GLOBAL) == of_clients]
                if not len(part):
                    continue
                wide = last_kept(part).pivot_table("value", ["run", "model"], "index")
                shares = wide.to_numpy() / wide.to_numpy()[:, :1]
                by_run = pd.DataFrame(shares).groupby(wide.index.get_level_values("run")).mean()
                index = np.arange(1, shares.shape[1] + 1)
                line(axes, index, by_run.to_numpy(), label, list(tables))
            axes.set(xlabel="singular value", ylabel="share of the largest", yscale="log")
            near = axes.get_ylim()[0] > NEAR  # so little of a decade that each tenth has its place
            axes.yaxis.set_major_locator(LogLocator(subs=range(1, 10) if near else (1, 2, 3, 5, 7)))
            axes.yaxis.set_major_formatter("{x:g}")
            axes.yaxis.set_minor_locator(NullLocator())
            if finish(axes):
                yield Drawing(title, figure)


def values_of(weights: Readable) -> list[float]:
    """The classifier's singular values, largest first."""
    found: list[float] = np.linalg.svd(weights[CLASSIFIER].astype(float), compute_uv=False).tolist()
    return found
