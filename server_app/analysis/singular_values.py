"""Singular values of the classifier; few large ones mean a classifier of low rank."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.ticker import LogLocator, NullLocator

from server_app.aggregation.weights import Readable
from server_app.analysis.analysed_run import AnalysedRun
from server_app.analysis.base import Drawing, Measure, Tables, rows_of_last_round
from server_app.report.canvas import draw_line, empty_figure, finish

CLASSIFIER, GLOBAL = "classifier.weight", "global"
NARROW_RANGE = 0.4


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
        """Draw the values of the last round: one picture of global and one of clients' models."""
        for title, of_clients in (("global model", False), ("clients' models", True)):
            figure, axes = empty_figure()
            for label, table in tables.items():
                part = table[(table["model"] != GLOBAL) == of_clients]
                if not len(part):
                    continue
                wide = rows_of_last_round(part).pivot_table("value", ["run", "model"], "index")
                shares = wide.to_numpy() / wide.to_numpy()[:, :1]
                by_run = pd.DataFrame(shares).groupby(wide.index.get_level_values("run")).mean()
                index = np.arange(1, shares.shape[1] + 1)
                draw_line(axes, index, by_run.to_numpy(), label, list(tables))
            axes.set(xlabel="singular value", ylabel="share of the largest", yscale="log")
            narrow = axes.get_ylim()[0] > NARROW_RANGE  # then there is room for a tick at each 0.1
            ticks = range(1, 10) if narrow else (1, 2, 3, 5, 7)
            axes.yaxis.set_major_locator(LogLocator(subs=ticks))
            axes.yaxis.set_major_formatter("{x:g}")
            axes.yaxis.set_minor_locator(NullLocator())
            if finish(axes):
                yield Drawing(title, figure)


def singular_values(weights: Readable) -> list[float]:
    """Return the singular values of the classifier's weight, largest first."""
    matrix = weights[CLASSIFIER].astype(float)
    values: list[float] = np.linalg.svd(matrix, compute_uv=False).tolist()
    return values
