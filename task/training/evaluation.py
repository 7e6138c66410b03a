"""Metrics of one model on sets of images."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812  (PyTorch's own abbreviation)
from torch import Tensor, nn

from task.data.batches import DeviceImages
from task.models.base import Output
from task.registry import named
from task.training.one_vs_rest import OneVsRest, one_vs_rest

BATCH_PIXELS = 512 * 32 * 32  # pixels per batch, so that memory does not depend on the image size
PIXEL_BYTES = (
    32_768  # of a GPU's memory for each pixel of a batch: 128 maps of 64 channels in float32
)
CALIBRATION_BINS = 15
SCORE = "task.training.multilabel.scores:score"  # of images with several labels
METRICS = "task.training.multilabel.scores:metrics"
BY_LABEL = "task.training.multilabel.scores:by_label"


def batch_pixels(device: torch.device) -> int:
    """Return the pixels per batch: a constant on a CPU, and on a GPU what its memory has room for.

    The GPU's whole memory counts, not what is free, so that equal GPUs give equal bits.
    """
    if device.type != "cuda":
        return BATCH_PIXELS
    memory = torch.cuda.get_device_properties(device).total_memory
    return max(BATCH_PIXELS, memory // PIXEL_BYTES)


@dataclass(frozen=True)
class Score:
    """Sums over one set of images; scores of several sets can be added.

    Attributes:
        examples: the number of images.
        correct: the number of correctly classified images; of images with several labels, those
            whose labels are all right.
        loss: the sum of the cross-entropy over the images.
    """

    examples: int
    correct: int
    loss: float

    def __add__(self, other: "Score") -> "Score":
        return Score(
            self.examples + other.examples, self.correct + other.correct, self.loss + other.loss
        )

    def means(self) -> dict[str, float]:
        """Return ``accuracy`` in [0, 1] and the mean ``loss``; empty without images."""
        if not self.examples:
            return {}
        return {"accuracy": self.correct / self.examples, "loss": self.loss / self.examples}


@dataclass(frozen=True)
class Metrics:
    """Every metric of a model on one set of images.

    Attributes:
        means: ``accuracy``, mean ``loss``, ``balanced_accuracy`` (mean recall of the classes with
            images), ``macro_f1`` (over the classes with images or predictions) and
            ``calibration_error`` (expected calibration error in 15 bins); empty without images.
            Images with several labels have ``label_accuracy``, the share of right answers, and no
            ``calibration_error``; the balanced accuracy is that of each label, in the mean.
            With `by_class` also ``auroc`` and ``average_precision``, where they are defined.
        recall: for each class with images, by its number: the number of images and the recall.
        by_class: metrics of each class against the rest; None if they were not asked for.
    """

    means: Mapping[str, float]
    recall: Mapping[int, tuple[int, float]]
    by_class: OneVsRest | None = None


def evaluate(model: nn.Module, images: DeviceImages, sets: Sequence[Tensor]) -> list[Score]:
    """Return a score for each set of positions; all sets share batches.

    Args:
        model: the model; put into eval mode.
        images: the data set.
        sets: indices of images, each [n] int64; may be empty.
    """
    sizes = [len(positions) for positions in sets]
    if not sum(sizes):
        return [Score(0, 0, 0.0) for _ in sets]
    logits, labels = predict(model, images, torch.cat(list(sets)))
    return list(map(score_logits, logits.split(sizes), labels.split(sizes)))


def score_logits(logits: Tensor, labels: Tensor) -> Score:
    """Return the score of logits [n, D] against labels [n], or [n, D] of several of an image."""
    if labels.ndim == 2:
        several: Score = named(SCORE)(logits, labels)
        return several
    losses = F.cross_entropy(logits, labels, reduction="none").double()
    return Score(len(labels), int((logits.argmax(dim=1) == labels).sum()), float(losses.sum()))


def compute_metrics(
    model: nn.Module, images: DeviceImages, positions: Tensor, *, by_class: bool = False
) -> Metrics:
    """Return every metric of `model` on the images at `positions` [n].

    Args:
        model: the model; put into eval mode.
        images: the data set.
        positions: indices of images, int64; may be empty.
        by_class: whether to compute those of each class against the rest, which takes longer.
    """
    if not len(positions):
        return Metrics({}, {})
    logits, labels = predict(model, images, positions)
    several = labels.ndim == 2
    found: Metrics = (named(METRICS) if several else metrics_from_logits)(logits, labels)
    if not by_class:
        return found
    each: OneVsRest = (named(BY_LABEL) if several else one_vs_rest)(logits, labels)
    return Metrics({**found.means, **each.means()}, found.recall, each)


def metrics_from_logits(logits: Tensor, labels: Tensor) -> Metrics:
    """Return every metric of logits [n, D] against labels [n], n at least 1.

    The tests compare them with torchmetrics. It is not used here, since importing it also imports
    PyTorch's compiler, which takes longer than a small run.
    """
    classes = logits.shape[1]
    predicted = logits.argmax(dim=1)
    hits = labels[predicted == labels].bincount(minlength=classes).double()
    in_labels, in_predictions = (of.bincount(minlength=classes) for of in (labels, predicted))
    present, relevant = in_labels > 0, in_labels + in_predictions > 0
    recall = hits / in_labels
    means = {
        **score_logits(logits, labels).means(),
        "balanced_accuracy": float(recall[present].mean()),
        "macro_f1": float((2 * hits / (in_labels + in_predictions))[relevant].mean()),
        "calibration_error": calibration_error(logits.softmax(dim=1), labels),
    }
    by_class = {
        label: (int(in_labels[label]), float(recall[label]))
        for label in present.nonzero().view(-1).tolist()
    }
    return Metrics(means, by_class)


def calibration_error(probabilities: Tensor, labels: Tensor) -> float:
    """Return the expected calibration error, in [0, 1], over `CALIBRATION_BINS` equal bins.

    Source: Guo et al., "On Calibration of Modern Neural Networks", ICML 2017, Eq. 3.

    Args:
        probabilities: [n, D].
        labels: [n].
    """
    confidence, predicted = probabilities.double().max(dim=1)
    bins = (confidence * CALIBRATION_BINS).nan_to_num(0).long().clamp_(0, CALIBRATION_BINS - 1)
    gap = (predicted == labels).double() - confidence
    by_bin = torch.zeros(CALIBRATION_BINS, dtype=torch.float64).index_add_(0, bins, gap)
    return float(by_bin.abs().sum()) / len(labels)


def predict(model: nn.Module, images: DeviceImages, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Return the model's logits [n, D], float32, and the labels, both on the CPU."""
    # They stay on the device until the last batch, because the CPU waits for each copy from a GPU.
    logits, labels = [], []
    for out, y in outputs(model, images, positions):
        logits.append(out.logits.float())
        labels.append(y)
    return torch.cat(logits).cpu(), torch.cat(labels).cpu()


@torch.inference_mode()
def outputs(
    model: nn.Module, images: DeviceImages, positions: Tensor
) -> Iterator[tuple[Output, Tensor]]:
    """Yield the model's output and the labels [n], batch by batch, in eval mode."""
    model.eval()
    for batch in positions.split(images.images_per(batch_pixels(images.device))):
        x, y = images[batch]
        yield model(x), y
