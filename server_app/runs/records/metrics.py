"""The metrics of a model on a set of images: how people call them, and which values they can have.

`task.training.evaluation` computes them. A metric that it computes and that stands here is checked
in records, and is in the report, the dashboard and the reference. One that stands only there, as of
another version, is read as a number, or left out if it is none.
"""

import re
from typing import NamedTuple

NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


class Metric(NamedTuple):
    """One metric.

    Attributes:
        label: as people write it.
        percent: whether it is shown in percent.
        share: whether it is from 0 to 1.
        may_diverge: whether it is not finite if the model's outputs are not.
        at_end: whether it is computed after the last round alone.
    """

    label: str
    percent: bool = False
    share: bool = True
    may_diverge: bool = False
    at_end: bool = False

    @property
    def heading(self) -> str:
        """The label with its unit."""
        return f"{self.label}, %" if self.percent else self.label


METRICS = {
    "accuracy": Metric("accuracy", percent=True),
    "loss": Metric("loss", share=False, may_diverge=True),
    "balanced_accuracy": Metric("balanced accuracy", percent=True),
    "label_accuracy": Metric("accuracy by label", percent=True),
    "macro_f1": Metric("macro F1", percent=True),
    "auroc": Metric("AUROC", at_end=True),
    "average_precision": Metric("average precision", at_end=True),
    "calibration_error": Metric("calibration error", share=False, may_diverge=True),
}
ACCURACY = METRICS["accuracy"].heading
FURTHER = tuple(METRICS)[1:]
RECALL = "recall"  # of one class, in tables of classes; a share
SHARES = (RECALL, *(name for name, metric in METRICS.items() if metric.share))
MAY_DIVERGE = tuple(name for name, metric in METRICS.items() if metric.may_diverge)
OF_ROUNDS = (  # what the split "train" has besides the loss terms
    "clients", "epsilon", "failed", "learning_rate", "left_out", "seconds", "simulated_seconds",
    "staleness",
)  # fmt: skip
CHECKED = {*METRICS, *OF_ROUNDS, RECALL}  # any other value may be any number
