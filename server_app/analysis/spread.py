"""Spread of probabilities and features, before and after aggregation."""

from collections.abc import Iterator, Mapping

import pandas as pd
import torch
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from server_app.analysis.base import Drawing, Measure, Tables
from server_app.analysis.subject import Subject
from server_app.report.canvas import blank, finish, line
from server_app.weights import Weights
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
        "features are alike; lower is more even."
    )
    columns = ("round", "client", "model", "images", "measure", "class", "value")

    def missing(self, subject: Subject) -> str:
        """It needs kept models, and images."""
        if not subject.kept:
            return "models of single rounds (train with watch.models_every=5)"
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
            for model in (TRAINED, AGGREGATED):
                figure, axes = blank()
                for label, table in tables.items():
                    part = table[(table["measure"] == measure) & (table["model"] == model)]
                    part = part[(part["images"] == TEST) & (part["class"] == ALL)]
                    wide = part.pivot_table("value", "run", "round").dropna(axis=1)
                    if wide.size:
                        line(axes, wide.columns.to_numpy(), wide.to_numpy(), label, list(tables))
                whose = "clients' models" if model == TRAINED else "global model"
                axes.set(xlabel="round", ylabel=measure)
                axes.xaxis.set_major_locator(MaxNLocator(integer=True))
                if finish(axes):
                    yield Drawing(f"{measure}, {whose}", figure)
        yield from draw_classes(tables)


def draw_classes(tables: Tables) -> Iterator[Drawing]:
    """The variance of each class, of the clients' models in the last round that was kept."""
    figure, axes = blank()
    for label, table in tables.items():
        part = table[(table["measure"] == VARIANCE) & (table["model"] == TRAINED)]
        part = part[(part["images"] == TEST) & (part["class"] != ALL)]
        part = part[part["round"] == part.groupby("run")["round"].transform("max")]
        wide = part.pivot_table("value", "run", "class").dropna(axis=1)
        if wide.size:
            line(axes, wide.columns.to_numpy(), wide.to_numpy(), label, list(tables))
    axes.set(xlabel="class", ylabel=VARIANCE)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if finish(axes):
        yield Drawing(f"{VARIANCE} by class, clients' models", figure)


def spread_of(
    subject: Subject, weights: Weights, positions: Tensor
) -> Mapping[tuple[str, int], float]:
    """By measure and class, where `ALL` is the mean of all, the spread on a set of images."""
    found = list(outputs(subject.model(weights), subject.worker.images, positions))
    variances = class_variances(torch.cat([out.logits.cpu() for out, _ in found]))
    even = uniformity(torch.cat([out.features.cpu() for out, _ in found]))
    by_class = {(VARIANCE, place): value for place, value in enumerate(variances.tolist())}
    return {**by_class, (VARIANCE, ALL): float(variances.mean()), (UNIFORMITY, ALL): even}
