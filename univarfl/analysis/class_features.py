"""A map of the features that clients' models give to the same images of one class."""

from collections.abc import Iterator

import pandas as pd
import torch

from univarfl.analysis.analysed_run import AnalysedRun
from univarfl.analysis.base import Drawing, Measure, Tables
from univarfl.analysis.features import draw_groups, features_of, mapped


class ClassFeatures(Measure):
    """t-SNE of the features of one class's test images by client (FedUV, Fig. 4)."""

    name = "class_features"
    title = "Map of one class"
    note = (
        "t-SNE of features of one class's test images: of the first class, or that of --class. "
        "Each client's model of the last kept round, after local training, gives features to the "
        "same images. If the colours mix, the clients see the class alike. FedUV's Fig. 4 does not "
        "say whose images it shows. Distances and axes have no unit."
    )
    columns = ("client", "class", "x", "y")
    text_columns = ("class",)
    compares_runs = False

    def unmet_requirement(self, analysed: AnalysedRun) -> str:
        """Return what is missing: kept models, or two test images of the class."""
        if analysed.missing_client_models:
            return analysed.missing_client_models
        return "" if len(analysed.test_of_class) > 1 else "two test images of the class"

    def measure(self, analysed: AnalysedRun) -> pd.DataFrame:
        """Return one row per client and image."""
        positions = analysed.test_of_class
        models = analysed.last_client_models
        features = [features_of(analysed, model, positions) for model in models.values()]
        points = mapped(torch.cat(features), analysed.config.seed)
        clients = [client for client in models for _ in positions]
        shown = analysed.worker.data.dataset.classes[analysed.class_number]
        columns = {"client": clients, "class": shown, "x": points[:, 0], "y": points[:, 1]}
        return pd.DataFrame(columns, columns=list(self.columns))

    def draw(self, tables: Tables) -> Iterator[Drawing]:
        """Yield the map by client."""
        for table in tables.values():
            yield from draw_groups(table, "client", f"class {table['class'].iloc[0]}, ")
