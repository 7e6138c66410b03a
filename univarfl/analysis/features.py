"""A map of the features in two dimensions, by t-SNE."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from server_app.aggregation.weights import Readable
from task.seeding import derived_seed
from task.training.evaluation import outputs
from univarfl.analysis.analysed_run import AnalysedRun
from univarfl.analysis.base import Drawing, Measure, Tables
from univarfl.report.charts.base import Plot, Series

MOST_NAMES = 12
PERPLEXITY = 30.0


class Features(Measure):
    """t-SNE of features by client, class and domain."""

    name = "features"
    title = "Map of features"
    note = (
        "t-SNE of the features of clients' training images. If rounds were kept, it shows the "
        "participants of the last kept round, with the features of each client's own model after "
        "local training; else all clients, with the features of the final global model. Only "
        "which images are close to each other has a meaning: distances and axes have no unit."
    )
    columns = ("client", "class", "domain", "x", "y")
    text_columns = ("class", "domain")
    compares_runs = False

    def unmet_requirement(self, analysed: AnalysedRun) -> str:
        """Return what is missing: images of clients on this machine."""
        return "" if analysed.clients else "the clients' images"

    def measure(self, analysed: AnalysedRun) -> pd.DataFrame:
        """Return one row per image."""
        models = analysed.last_client_models
        shown = {
            client: positions
            for client, positions in analysed.clients.items()
            if client in models or not models
        }
        dataset = analysed.worker.data.dataset
        features, rows = [], []
        for client, positions in shown.items():
            features.append(features_of(analysed, models.get(client, analysed.weights), positions))
            rows += [
                (
                    client,
                    dataset.classes[dataset.labels[at]],
                    dataset.domains[dataset.domain_of[at]],
                )
                for at in positions.tolist()
            ]
        points = mapped(torch.cat(features), analysed.config.seed)
        table = pd.DataFrame(rows, columns=["client", "class", "domain"])
        return table.assign(x=points[:, 0], y=points[:, 1])

    def draw(self, tables: Tables) -> Iterator[Drawing]:
        """Yield the map by client, by class and by domain, each if there are several."""
        for table in tables.values():
            for column in ("client", "class", "domain"):
                yield from draw_groups(table, column)


def features_of(analysed: AnalysedRun, weights: Readable, positions: Tensor) -> Tensor:
    """Return a model's features of the images at `positions` [n], [n, features] on the CPU."""
    batches = outputs(analysed.model(weights), analysed.worker.images, positions)
    return torch.cat([out.features.cpu() for out, _ in batches])


def mapped(features: Tensor, seed: int) -> NDArray[np.float32]:
    """Return the points [n, 2] of a t-SNE of some features [n, features]."""
    from sklearn.manifold import TSNE  # noqa: PLC0415  (takes half a second, which other commands save)

    perplexity = min(PERPLEXITY, (len(features) - 1) / 3)
    state = derived_seed(seed, "analysis", "map") % 2**32
    mapping = TSNE(perplexity=perplexity, init="pca", random_state=state, n_jobs=1)
    points: NDArray[np.float32] = mapping.fit_transform(features.numpy())
    return points


def draw_groups(table: pd.DataFrame, column: str, begin: str = "") -> Iterator[Drawing]:
    """Yield the map of a table's points by the values of a column, if there are several.

    At most `MOST_NAMES` values are shown, since more colours cannot be distinguished.

    Args:
        table: has columns ``x`` and ``y``.
        column: the column.
        begin: the start of the title.
    """
    every = sorted(table[column].dropna().unique())
    names = every[:MOST_NAMES]
    if len(names) < 2:
        return
    groups = [
        Series(named(column, name), place, part["x"].tolist(), part["y"].tolist())
        for place, name in enumerate(names)
        for part in [table[table[column] == name]]
    ]
    which = "" if names == every else f", the first {MOST_NAMES} of {len(every)}"
    yield Drawing(f"{begin}by {column}{which}", Plot("", "", groups, dots=True))


def named(column: str, name: object) -> str:
    """Return a value as a name in a legend: a client is a number, and gets its noun."""
    return f"client {name}" if column == "client" else str(name)
