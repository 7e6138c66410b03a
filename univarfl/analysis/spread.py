"""Spread of probabilities and features, before and after aggregation."""

from collections.abc import Iterator, Mapping

import pandas as pd
import torch
from torch import Tensor

from server_app.aggregation.weights import Readable
from task.analysis.spread import class_variances, uniformity
from task.training.evaluation import outputs
from univarfl.analysis.analysed_run import KEPT_MODELS, AnalysedRun
from univarfl.analysis.base import Drawing, Measure, Tables, draw_lines, rows_of_last_round

VARIANCE, UNIFORMITY = "probability variance", "feature uniformity"
TRAINED, AGGREGATED = "trained", "aggregated"
OWN, TEST = "own", "test"
ALL = -1

Row = tuple[int, int, str, str, str, int, float]


class Spread(Measure):
    """Variance of class probabilities and uniformity of features, by client and kept round."""

    name = "spread"
    title = "Spread of probabilities and features"
    note = (
        "On test images: for each client's model after local training (trained; mean over a "
        "round's participants), and for the global model that results from them (aggregated). "
        "The variance is that of a class's probability over the images, mean over classes; "
        "one-hot predictions of D balanced classes have (1 - 1/D) / D. Uniformity (Wang and Isola, "
        "2020) is 0 if all features have the same direction, and lower if they are more even; -4 "
        "is the minimum if no feature is negative. The table has the last kept round."
    )
    columns = ("round", "client", "model", "images", "measure", "class", "value")
    text_columns = ("model", "images", "measure")
    number_format = ".3f"

    def unmet_requirement(self, analysed: AnalysedRun) -> str:
        """Return what is missing: kept models, or images."""
        if not analysed.kept:
            return KEPT_MODELS
        return "" if analysed.clients or len(analysed.test) > 1 else "images"

    def measure(self, analysed: AnalysedRun) -> pd.DataFrame:
        """Return one row per round, client, model, set of images, measure and class.

        Class -1 is the mean over classes. Client -1 is the aggregated model on test images, which
        is the same for every client.
        """
        rows: list[Row] = []
        for server_round, models in analysed.rounds():
            cases = [(ALL, AGGREGATED, TEST, models.aggregated)]
            for client, trained in models.clients.items():
                cases.append((client, TRAINED, TEST, trained))
                cases.append((client, TRAINED, OWN, trained))
                cases.append((client, AGGREGATED, OWN, models.aggregated))
            for client, model, images, weights in cases:
                positions = analysed.test if images == TEST else analysed.clients.get(client)
                if positions is not None and len(positions) > 1:
                    values = spread_values(analysed, weights, positions)
                    head = (server_round, client, model, images)
                    rows += [(*head, *key, value) for key, value in values.items()]
        return pd.DataFrame(rows, columns=list(self.columns))

    def draw(self, tables: Tables) -> Iterator[Drawing]:
        """Yield each measure over the rounds, for the clients' and for the global models."""
        for measure in (VARIANCE, UNIFORMITY):
            for model, whose in ((TRAINED, "clients' models"), (AGGREGATED, "global model")):
                parts = {
                    label: rows_on_test_images(table[table["class"] == ALL], measure, model)
                    for label, table in tables.items()
                }
                yield from draw_lines(parts, "value", "round", f"{measure}, {whose}", measure)
        title = f"{VARIANCE} by class, clients' models"
        parts = {label: last_class_variances(table) for label, table in tables.items()}
        yield from draw_lines(parts, "value", "class", title, VARIANCE)

    def run_values(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return the means over the participants of the last kept round, on test images."""
        part = rows_of_last_round(table[(table["class"] == ALL) & (table["images"] == TEST)])
        wide = part.pivot_table("value", "run", ["measure", "model"])
        return wide.set_axis([f"{measure}, {model}" for measure, model in wide], axis="columns")


def rows_on_test_images(table: pd.DataFrame, measure: str, model: str) -> pd.DataFrame:
    """Return the rows of one measure and kind of model on test images."""
    matches = (table["measure"] == measure) & (table["model"] == model)
    return table[matches & (table["images"] == TEST)]


def last_class_variances(table: pd.DataFrame) -> pd.DataFrame:
    """Return each class's variance for the clients' models of the last kept round."""
    return rows_of_last_round(rows_on_test_images(table[table["class"] != ALL], VARIANCE, TRAINED))


def spread_values(
    analysed: AnalysedRun, weights: Readable, positions: Tensor
) -> Mapping[tuple[str, int], float]:
    """Return the spread of a model on a set of images, by measure and class.

    The class is `ALL` for the mean over classes and for uniformity.
    """
    batches = list(outputs(analysed.model(weights), analysed.worker.images, positions))
    variances = class_variances(torch.cat([out.logits.cpu() for out, _ in batches]))
    even = uniformity(torch.cat([out.features.cpu() for out, _ in batches]))
    by_class = {(VARIANCE, place): value for place, value in enumerate(variances.tolist())}
    return {**by_class, (VARIANCE, ALL): float(variances.mean()), (UNIFORMITY, ALL): even}
