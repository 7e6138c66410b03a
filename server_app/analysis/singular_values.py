"""Singular values of the classifier; few large ones mean a classifier of low rank."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from server_app.aggregation.weights import Readable
from server_app.analysis.analysed_run import AnalysedRun
from server_app.analysis.base import Drawing, Measure, Tables, rows_of_last_round
from server_app.report.charts.base import Plot, mean_series

CLASSIFIER, GLOBAL = "classifier.weight", "global"


class SingularValues(Measure):
    """Singular values of the global and the clients' classifiers (UniVarFL, Fig. 1)."""

    name = "singular_values"
    title = "Singular values of the classifier"
    note = (
        "Singular values of the classifier's weights, divided by the largest; a steep line means a "
        "classifier of low rank. Shown for the final global model, and for the clients' models "
        "after local training in the last kept round (mean over clients)."
    )
    columns = ("round", "model", "index", "value")
    text_columns = ("model",)
    uses_images = False

    def measure(self, analysed: AnalysedRun) -> pd.DataFrame:
        """Return one row per model and singular value."""
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
        """Yield the values of the last round: one chart of global and one of clients' models."""
        for title, of_clients in (("global model", False), ("clients' models", True)):
            series = []
            for style, (label, table) in enumerate(tables.items()):
                part = table[(table["model"] != GLOBAL) == of_clients]
                if not len(part):
                    continue
                wide = rows_of_last_round(part).pivot_table("value", ["run", "model"], "index")
                shares = wide.to_numpy() / wide.to_numpy()[:, :1]
                by_run = pd.DataFrame(shares).groupby(wide.index.get_level_values("run")).mean()
                index = np.arange(1, shares.shape[1] + 1)
                series.append(mean_series(label, style, index.tolist(), by_run.to_numpy()))
            if series:
                axes = ("singular value", "share of the largest")
                yield Drawing(title, Plot(*axes, series, log_y=True, whole_x=True))


def singular_values(weights: Readable) -> list[float]:
    """Return the singular values of the classifier's weight, largest first."""
    matrix = weights[CLASSIFIER].astype(float)
    values: list[float] = np.linalg.svd(matrix, compute_uv=False).tolist()
    return values
