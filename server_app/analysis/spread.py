"""Spread of probabilities and features, before and after aggregation."""

from collections.abc import Iterator, Mapping

import pandas as pd
import torch
from torch import Tensor

from server_app.analysis.base import Drawing, Measure, Tables, last_kept, lines
from server_app.analysis.subject import KEPT_MODELS, Subject
from server_app.weights import Readable
from task.analysis.spread import class_variances, uniformity
from task.evaluation import outputs

VARIANCE, UNIFORMITY = "probability variance", "feature uniformity"
TRAINED, AGGREGATED = "trained", "aggregated"
OWN, TEST = "own", "test"
ALL = -1

Row = tuple[int, int, str, str, str, int, float]


class Spread(Measure):
    """Class probabilities' variance and features' uniformity, at each client and kept round."""

    name = "spread"
    title = "Spread of probabilities and features"
    note = (
        "On test images, mean over a round's participants: of each client's model after its local "
        "training, and of the global model that they are then aggregated into. The variance is of "
        "a class's probability over the images, mean over classes: one-hot predictions of D "
        "balanced classes have (1 - 1/D) / D. Uniformity (Wang and Isola, 2020) is 0 where all "
        "features point the same way; lower is more even, down to -4, as none is negative. The "
        "table has the last round that was kept."
    )
    columns = ("round", "client", "model", "images", "measure", "class", "value")
    words = ("model", "images", "measure")
    form = ".3f"

    def missing(self, subject: Subject) -> str:
        """It needs kept models, and images."""
        if not subject.kept:
            return KEPT_MODELS
        return "" if subject.clients or len(subject.test) > 1 else "images"

    def measure(self, subject: Subject) -> pd.DataFrame:
        """A row for each round, client, model, set of images, measure and class (-1 for all).

        The aggregated model on test images is the same for every client: its client is -1.
        """
        rows: list[Row] = []
        for server_round, models in subject.rounds():
            looks = [(ALL, AGGREGATED, TEST, models.aggregated)]
            for client, trained in models.clients.items():
                looks.append((client, TRAINED, TEST, trained))
                looks.append((client, TRAINED, OWN, trained))
                looks.append((client, AGGREGATED, OWN, models.aggregated))
            for client, model, images, weights in looks:
                positions = subject.test if images == TEST else subject.clients.get(client)
                if positions is not None and len(positions) > 1:
                    found = spread_of(subject, weights, positions)
                    head = (server_round, client, model, images)
                    rows += [(*head, *key, value) for key, value in found.items()]
        return pd.DataFrame(rows, columns=list(self.columns))

    def draw(self, tables: Tables) -> Iterator[Drawing]:
        """Each measure over the rounds, once for the clients' models, once for the global one."""
        for measure in (VARIANCE, UNIFORMITY):
            for model, whose in ((TRAINED, "clients' models"), (AGGREGATED, "global model")):
                parts = {
                    label: chosen(table[table["class"] == ALL], measure, model)
                    for label, table in tables.items()
                }
                yield from lines(parts, "value", "round", f"{measure}, {whose}", measure)
        title = f"{VARIANCE} by class, clients' models"
        parts = {label: by_class(table) for label, table in tables.items()}
        yield from lines(parts, "value", "class", title, VARIANCE)

    def by_run(self, table: pd.DataFrame) -> pd.DataFrame:
        """The last kept round's on test images, mean over its participants."""
        part = last_kept(table[(table["class"] == ALL) & (table["images"] == TEST)])
        wide = part.pivot_table("value", "run", ["measure", "model"])
        return wide.set_axis([f"{measure}, {model}" for measure, model in wide], axis="columns")


def chosen(table: pd.DataFrame, measure: str, model: str) -> pd.DataFrame:
    """What was measured of models on test images."""
    found = (table["measure"] == measure) & (table["model"] == model)
    return table[found & (table["images"] == TEST)]


def by_class(table: pd.DataFrame) -> pd.DataFrame:
    """The variance of each class, of the clients' models in the last round that was kept."""
    return last_kept(chosen(table[table["class"] != ALL], VARIANCE, TRAINED))


def spread_of(
    subject: Subject, weights: Readable, positions: Tensor
) -> Mapping[tuple[str, int], float]:
    """By measure and class, where `ALL` is the mean of all, the spread on a set of images."""
    found = list(outputs(subject.model(weights), subject.worker.images, positions))
    variances = class_variances(torch.cat([out.logits.cpu() for out, _ in found]))
    even = uniformity(torch.cat([out.features.cpu() for out, _ in found]))
    by_class = {(VARIANCE, place): value for place, value in enumerate(variances.tolist())}
    return {**by_class, (VARIANCE, ALL): float(variances.mean()), (UNIFORMITY, ALL): even}
