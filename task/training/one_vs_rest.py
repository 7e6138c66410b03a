"""Metrics of each class against the rest, and the confusion matrix."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:  # records of runs are read without PyTorch, which takes seconds to import
    from torch import Tensor


@dataclass(frozen=True)
class ClassMetrics:
    """How a model tells one class from all others; None where a metric is undefined.

    Attributes:
        images: the number of images of the class.
        sensitivity: the share of them that are classified correctly, which is the recall; None
            without images of the class.
        specificity: the share of all other images that are not taken for the class; None without
            images of other classes.
        auroc: the area under the ROC curve of the class's probability; None without images of the
            class or of others, or if a probability is not finite.
        average_precision: that of the class's probability; None as for `auroc`.
    """

    images: int
    sensitivity: float | None
    specificity: float | None
    auroc: float | None
    average_precision: float | None


@dataclass(frozen=True)
class OneVsRest:
    """Metrics of every class against the rest.

    Attributes:
        classes: one entry for each class, in the order of the classes.
        confusion: the number of images of class i (row) that are classified as class j (column);
            empty if an image can have several classes.
    """

    classes: Sequence[ClassMetrics]
    confusion: Sequence[Sequence[int]]

    def means(self) -> dict[str, float]:
        """Return the macro means of ``auroc`` and ``average_precision``.

        Each is the mean over the classes for which it is defined; it is left out if there is none.
        """
        found = {
            "auroc": mean(each.auroc for each in self.classes),
            "average_precision": mean(each.average_precision for each in self.classes),
        }
        return {name: value for name, value in found.items() if value is not None}


def one_vs_rest(logits: "Tensor", labels: "Tensor") -> OneVsRest:
    """Return the metrics of each class for logits [n, D] against labels [n], n at least 1."""
    # Imported here because it takes a second, and only the last round needs it.
    from sklearn.metrics import confusion_matrix  # noqa: PLC0415

    probabilities = logits.softmax(dim=1).numpy().astype(np.float64)
    truth, classes = labels.numpy(), logits.shape[1]
    confusion = confusion_matrix(truth, logits.argmax(dim=1).numpy(), labels=np.arange(classes))
    found = [
        class_metrics(confusion, label, truth == label, probabilities[:, label])
        for label in range(classes)
    ]
    return OneVsRest(found, confusion.tolist())


def class_metrics(
    confusion: NDArray[np.int64],
    label: int,
    is_class: NDArray[np.bool_],
    probability: NDArray[np.float64],
) -> ClassMetrics:
    """Return the metrics of one class.

    Args:
        confusion: [D, D], as in `OneVsRest`.
        label: the class.
        is_class: [n], whether each image is of the class.
        probability: [n], the class's.
    """
    images, hits = int(confusion[label].sum()), int(confusion[label, label])
    others, taken = len(is_class) - images, int(confusion[:, label].sum()) - hits
    area, precision = ranking(is_class, probability)
    return ClassMetrics(
        images,
        hits / images if images else None,
        (others - taken) / others if others else None,
        area,
        precision,
    )


def ranking(
    is_class: NDArray[np.bool_], probability: NDArray[np.float64]
) -> tuple[float | None, float | None]:
    """Return the area under the ROC curve, and the average precision, of a class's probability.

    Args:
        is_class: [n], whether each image is of the class.
        probability: [n], the class's.
    """
    from sklearn.metrics import average_precision_score, roc_auc_score  # noqa: PLC0415

    if is_class.all() or not is_class.any() or not np.isfinite(probability).all():
        return None, None
    area = float(roc_auc_score(is_class, probability))
    # scikit-learn adds rounded terms; their sum can be 1 + 2e-16.
    return area, min(1.0, float(average_precision_score(is_class, probability)))


def mean(values: Iterable[float | None]) -> float | None:
    """Return the mean of the values that are defined; None if there are none."""
    defined = [value for value in values if value is not None]
    return math.fsum(defined) / len(defined) if defined else None
