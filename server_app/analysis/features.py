"""A map of the features: which images lie near which."""

from collections.abc import Iterator, Mapping

import pandas as pd
import torch

from server_app.analysis.base import Drawing, Measure, Tables
from server_app.analysis.subject import Subject
from server_app.report.canvas import COLOURS, MARKERS, blank, clipped, finish
from server_app.round_models import load_models
from server_app.weights import Readable
from task.evaluation import outputs
from task.seeding import derived_seed

MOST_NAMES = 12
PERPLEXITY = 30.0


class Features(Measure):
    """t-SNE of features by client, class and domain (FedUV Fig. 4)."""

    name = "features"
    title = "Map of features"
    note = (
        "t-SNE of the features of clients' training images: of the participants of the last "
        "round that was kept, as each one's own model has them after local training; where no "
        "round was kept, of all clients, as the final global model has them. Only who lies near "
        "whom counts: distances and axes have no unit."
    )
    columns = ("client", "class", "domain", "x", "y")
    words = ("class", "domain")
    together = False

    def missing(self, subject: Subject) -> str:
        """It needs images."""
        return "" if subject.clients else "the clients' images"

    def measure(self, subject: Subject) -> pd.DataFrame:
        """A row for each image."""
        from sklearn.manifold import TSNE  # noqa: PLC0415  (half a second, at every command)

        models = own_models(subject)
        shown = {who: of for who, of in subject.clients.items() if who in models or not models}
        dataset = subject.worker.data.dataset
        features, rows = [], []
        for client, positions in shown.items():
            network = subject.model(models.get(client, subject.weights))
            found = outputs(network, subject.worker.images, positions)
            features += [out.features.cpu() for out, _ in found]
            rows += [
                (
                    client,
                    dataset.classes[dataset.labels[at]],
                    dataset.domains[dataset.domain_of[at]],
                )
                for at in positions.tolist()
            ]
        seed = derived_seed(subject.config.seed, "analysis", "map") % 2**32
        spread = min(PERPLEXITY, (len(rows) - 1) / 3)
        mapping = TSNE(perplexity=spread, init="pca", random_state=seed, n_jobs=1)
        points = mapping.fit_transform(torch.cat(features).numpy())
        table = pd.DataFrame(rows, columns=["client", "class", "domain"])
        return table.assign(x=points[:, 0], y=points[:, 1])

    def draw(self, tables: Tables) -> Iterator[Drawing]:
        """The map once for each of client, class and domain, where there are several.

        More than `MOST_NAMES` nobody could tell apart: the first ones are shown.
        """
        for table in tables.values():
            for column in ("client", "class", "domain"):
                every = sorted(table[column].dropna().unique())
                names = every[:MOST_NAMES]
                if len(names) < 2:
                    continue
                figure, axes = blank()
                for place, name in enumerate(names):
                    part = table[table[column] == name]
                    colour = COLOURS[place % len(COLOURS)]
                    axes.scatter(
                        part["x"], part["y"], s=9, label=clipped(str(name)), edgecolors=colour,
                        facecolors=colour if place < len(COLOURS) else "none",
                        marker=MARKERS[place % len(MARKERS)],
                    )  # fmt: skip
                finish(axes)
                axes.grid(False)
                axes.set(xticks=[], yticks=[])
                which = "" if names == every else f", the first {MOST_NAMES} of {len(every)}"
                yield Drawing(f"by {column}{which}", figure)


def own_models(subject: Subject) -> Mapping[int, Readable]:
    """By client, its model in the last round that was kept."""
    return load_models(list(subject.kept.values())[-1]).clients if subject.kept else {}
