"""Singular values of the classifier; few large ones mean a classifier of low rank."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from server_app.aggregation.weights import Readable
from task.errors import DataError
from univarfl.analysis.analysed_run import CLASSIFIER, AnalysedRun
from univarfl.analysis.base import Drawing, Measure, Tables, rows_of_last_round
from univarfl.report.charts.base import Plot, Series, mean_series

GLOBAL = "global"
INDEX, SHARE = "singular value", "share of the largest"


class SingularValues(Measure):
    """Singular values of the global and the clients' classifiers (UniVarFL, Fig. 1)."""

    name = "singular_values"
    title = "Singular values of the classifier"
    note = (
        "Singular values of the classifier's weights, as they are and divided by the largest; a "
        "steep line means a classifier of low rank. Shown for the final global model, and for the "
        "clients' models after local training in the last kept round (mean over clients)."
    )
    columns = ("round", "model", "index", "value")
    text_columns = ("model",)
    uses_images = False

    def measure(self, analysed: AnalysedRun) -> pd.DataFrame:
        """Return one row per model and singular value.

        Raises:
            DataError: the classifier is not a linear layer, as with FedETF.
        """
        if CLASSIFIER not in analysed.weights:
            raise DataError("the network has no linear classifier, whose weights could be analysed")
        rows: list[tuple[int, str, int, float]] = []
        for server_round, models in analysed.rounds():
            named = {f"client {client}": own for client, own in models.clients.items()}
            for model, weights in {**named, GLOBAL: models.aggregated}.items():
                values = enumerate(singular_values(weights), 1)
                rows += [(server_round, model, *pair) for pair in values]
        if analysed.last_round not in analysed.kept:
            final = enumerate(singular_values(analysed.weights), 1)
            rows += [(analysed.last_round, GLOBAL, *pair) for pair in final]
        return pd.DataFrame(rows, columns=list(self.columns))

    def draw(self, tables: Tables) -> Iterator[Drawing]:
        """Yield the values of the last round, of the global and of the clients' models.

        Each is drawn as it is (FedUV, Fig. 1), and as a share of the largest value.
        """
        for title, of_clients in (("global model", False), ("clients' models", True)):
            series: list[Series] = []
            shares_of_largest: list[Series] = []
            for style, (label, table) in enumerate(tables.items()):
                part = table[(table["model"] != GLOBAL) == of_clients]
                if not len(part):
                    continue
                wide = rows_of_last_round(part).pivot_table("value", ["run", "model"], "index")
                shares = wide.div(wide.iloc[:, 0], axis="index")
                for values, into in ((wide, series), (shares, shares_of_largest)):
                    by_run = values.groupby("run").mean().to_numpy()
                    into.append(mean_series(label, style, wide.columns.tolist(), by_run))
            if series:
                yield Drawing(title, Plot(INDEX, "value", series, whole_x=True))
                plot = Plot(INDEX, SHARE, shares_of_largest, log_y=True, whole_x=True)
                yield Drawing(f"{title}, shares", plot)


def singular_values(weights: Readable) -> list[float]:
    """Return the singular values of the classifier's weight, largest first."""
    matrix = weights[CLASSIFIER].astype(float)
    values: list[float] = np.linalg.svd(matrix, compute_uv=False).tolist()
    return values
