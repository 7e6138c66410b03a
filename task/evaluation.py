"""Scores of one model on sets of images."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812  (PyTorch's own abbreviation)
from torch import Tensor, nn

from task.data.batches import DeviceImages
from task.models.base import Output

BATCH_PIXELS = 512 * 32 * 32  # a batch takes the same memory whatever the size of its images
CALIBRATION_BINS = 15


@dataclass(frozen=True)
class Score:
    """Sums over one set of images, so that scores of several sets add up.

    Attributes:
        examples: how many images.
        correct: how many of them the model classifies rightly.
        loss: the summed cross-entropy.
    """

    examples: int
    correct: int
    loss: float

    def __add__(self, other: "Score") -> "Score":
        return Score(
            self.examples + other.examples, self.correct + other.correct, self.loss + other.loss
        )

    def means(self) -> dict[str, float]:
        """Accuracy in [0, 1] and the mean loss; empty for no images."""
        if not self.examples:
            return {}
        return {"accuracy": self.correct / self.examples, "loss": self.loss / self.examples}


@dataclass(frozen=True)
class Quality:
    """A model's metrics on one set of images.

    Attributes:
        means: accuracy, mean loss, balanced accuracy (the mean recall of the classes there are),
            macro F1 (over the classes that are there or were predicted), and the expected
            calibration error in 15 bins; empty for no images.
        recall: by class number, of the classes there are: how many images, and the share of them
            that is classified rightly.
    """

    means: Mapping[str, float]
    recall: Mapping[int, tuple[int, float]]


def evaluate(model: nn.Module, images: DeviceImages, sets: Sequence[Tensor]) -> list[Score]:
    """Score `model` on each set of positions, all sets in common batches."""
    sizes = [len(positions) for positions in sets]
    if not sum(sizes):
        return [Score(0, 0, 0.0) for _ in sets]
    logits, labels = predict(model, images, torch.cat(list(sets)))
    return list(map(score, logits.split(sizes), labels.split(sizes)))


def score(logits: Tensor, labels: Tensor) -> Score:
    """The sums over images whose logits [n, classes] and labels [n] are given."""
    losses = F.cross_entropy(logits, labels, reduction="none").double()
    return Score(len(labels), int((logits.argmax(dim=1) == labels).sum()), float(losses.sum()))


def assess(model: nn.Module, images: DeviceImages, positions: Tensor) -> Quality:
    """Every metric of `model` on the images at `positions`."""
    if not len(positions):
        return Quality({}, {})
    return quality(*predict(model, images, positions))


def quality(logits: Tensor, labels: Tensor) -> Quality:
    """Every metric, from logits [n, classes] and labels [n].

    They are torchmetrics' own, as the tests hold them to; it is not used here because importing it
    brings PyTorch's compiler and takes longer than a small run.
    """
    classes = logits.shape[1]
    predicted = logits.argmax(dim=1)
    hits = labels[predicted == labels].bincount(minlength=classes).double()
    truly, said = (of.bincount(minlength=classes) for of in (labels, predicted))
    there, named = truly > 0, truly + said > 0
    recall = hits / truly
    means = {
        **score(logits, labels).means(),
        "balanced_accuracy": float(recall[there].mean()),
        "macro_f1": float((2 * hits / (truly + said))[named].mean()),
        "calibration_error": calibration_error(logits.softmax(dim=1), labels),
    }
    found = {at: (int(truly[at]), float(recall[at])) for at in there.nonzero().view(-1).tolist()}
    return Quality(means, found)


def calibration_error(probabilities: Tensor, labels: Tensor) -> float:
    """The mean gap between confidence and accuracy, over bins of equal width, weighted by images.

    Source: Guo et al., "On Calibration of Modern Neural Networks", ICML 2017, Eq. 3.
    """
    confidence, predicted = probabilities.double().max(dim=1)
    bins = (confidence * CALIBRATION_BINS).nan_to_num(0).long().clamp_(0, CALIBRATION_BINS - 1)
    gap = (predicted == labels).double() - confidence
    by_bin = torch.zeros(CALIBRATION_BINS, dtype=torch.float64).index_add_(0, bins, gap)
    return float(by_bin.abs().sum()) / len(labels)


def predict(model: nn.Module, images: DeviceImages, positions: Tensor) -> tuple[Tensor, Tensor]:
    """The model's logits, float32 [n, classes], and the labels [n], both on the CPU."""
    logits, labels = [], []
    for out, y in outputs(model, images, positions):
        logits.append(out.logits.float().cpu())
        labels.append(y.cpu())
    return torch.cat(logits), torch.cat(labels)


@torch.inference_mode()
def outputs(
    model: nn.Module, images: DeviceImages, positions: Tensor
) -> Iterator[tuple[Output, Tensor]]:
    """The model's answers, batch by batch, and the labels."""
    model.eval()
    for batch in positions.split(images.at_once(BATCH_PIXELS)):
        x, y = images[batch]
        yield model(x), y
