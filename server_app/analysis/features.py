"""A map of the features in two dimensions, by t-SNE."""

from collections.abc import Iterator, Mapping

import pandas as pd
import torch

from server_app.aggregation.weights import Readable
from server_app.analysis.analysed_run import AnalysedRun
from server_app.analysis.base import Drawing, Measure, Tables
from server_app.report.charts.base import Plot, Series
from server_app.runs.round_models import load_models
from task.seeding import derived_seed
from task.training.evaluation import outputs

MOST_NAMES = 12
PERPLEXITY = 30.0


class Features(Measure):
    """t-SNE of features by client, class and domain (FedUV, Fig. 4)."""

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
        from sklearn.manifold import TSNE  # noqa: PLC0415  (takes half a second, which other commands save)

        models = last_client_models(analysed)
        shown = {
            client: positions
            for client, positions in analysed.clients.items()
            if client in models or not models
        }
        dataset = analysed.worker.data.dataset
        features, rows = [], []
        for client, positions in shown.items():
            network = analysed.model(models.get(client, analysed.weights))
            batches = outputs(network, analysed.worker.images, positions)
            features += [out.features.cpu() for out, _ in batches]
            rows += [
                (
                    client,
                    dataset.classes[dataset.labels[at]],
                    dataset.domains[dataset.domain_of[at]],
                )
                for at in positions.tolist()
            ]
        seed = derived_seed(analysed.config.seed, "analysis", "map") % 2**32
        perplexity = min(PERPLEXITY, (len(rows) - 1) / 3)
        mapping = TSNE(perplexity=perplexity, init="pca", random_state=seed, n_jobs=1)
        points = mapping.fit_transform(torch.cat(features).numpy())
        table = pd.DataFrame(rows, columns=["client", "class", "domain"])
        return table.assign(x=points[:, 0], y=points[:, 1])

    def draw(self, tables: Tables) -> Iterator[Drawing]:
        """Yield the map by client, by class and by domain, each if there are several.

        At most `MOST_NAMES` values are shown, since more colours cannot be distinguished.
        """
        for table in tables.values():
            for column in ("client", "class", "domain"):
                every = sorted(table[column].dropna().unique())
                names = every[:MOST_NAMES]
                if len(names) < 2:
                    continue
                groups = [
                    Series(named(column, name), place, part["x"].tolist(), part["y"].tolist())
                    for place, name in enumerate(names)
                    for part in [table[table[column] == name]]
                ]
                which = "" if names == every else f", the first {MOST_NAMES} of {len(every)}"
                yield Drawing(f"by {column}{which}", Plot("", "", groups, dots=True))


def named(column: str, name: object) -> str:
    """Return a value as a name in a legend: a client is a number, and gets its noun."""
    return f"client {name}" if column == "client" else str(name)


def last_client_models(analysed: AnalysedRun) -> Mapping[int, Readable]:
    """Return each client's model in the last kept round; empty if none was kept."""
    return load_models(list(analysed.kept.values())[-1]).clients if analysed.kept else {}
