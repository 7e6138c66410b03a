"""The global model's loss on the training images, over the kept rounds."""

from collections.abc import Iterator

import pandas as pd
import torch

from task.training.evaluation import evaluate
from univarfl.analysis.analysed_run import KEPT_MODELS, AnalysedRun
from univarfl.analysis.base import Drawing, Measure, Tables, draw_lines, rows_of_last_round


class TrainingLoss(Measure):
    """Cross-entropy of the global model on all clients' training images (FedUV, Fig. 3)."""

    name = "training_loss"
    title = "Training loss of the global model"
    note = (
        "Mean cross-entropy of the global model on the training images of all clients, after each "
        "kept round. All images are used, not a sample, without augmentation. The loss in other "
        "charts is that of the participants while they train. The table has the last kept round."
    )
    columns = ("round", "loss")
    uses_images = False

    def unmet_requirement(self, analysed: AnalysedRun) -> str:
        """Return what is missing: kept models, or images of clients on this machine."""
        if not analysed.kept:
            return KEPT_MODELS
        return "" if analysed.clients else "the clients' images"

    def measure(self, analysed: AnalysedRun) -> pd.DataFrame:
        """Return one row per kept round."""
        worker = analysed.worker
        positions = torch.from_numpy(analysed.every_training_image).to(worker.device)
        rows = []
        for server_round, models in analysed.rounds():
            model = analysed.model(models.aggregated)
            (score,) = evaluate(model, worker.images, [positions])
            rows.append((server_round, score.means()["loss"]))
        return pd.DataFrame(rows, columns=list(self.columns))

    def draw(self, tables: Tables) -> Iterator[Drawing]:
        """Yield the loss over the rounds."""
        yield from draw_lines(tables, "loss", "round", "", "training loss")

    def run_values(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return the loss after the last kept round."""
        return rows_of_last_round(table).set_index("run")[["loss"]]
