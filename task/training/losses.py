"""The terms of a loss, their sum, and their means over images."""

import math
from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F  # noqa: N812  (PyTorch's own abbreviation)
from torch import Tensor

from task.config import LocalConfig, Loss
from task.methods.base import Method, Term
from task.models.base import Output
from task.registry import named

BINARY = "task.training.multilabel.scores:entropy"  # of images with several labels

Entropy = Callable[[Tensor, Tensor], Tensor]  # of logits [n, D], and classes or probabilities


def loss_terms(
    method: Method, out: Output, x: Tensor, y: Tensor, entropy: Entropy = F.cross_entropy
) -> dict[str, Term]:
    """Return the terms of the local loss, the cross-entropy first.

    Args:
        method: its ``batch`` has returned `x` and `y`.
        out: the network's output for `x`.
        x: images [n, C, H, W].
        y: classes [n], or class probabilities [n, D].
        entropy: the cross-entropy of a batch.
    """
    return {"ce": Term(entropy(method.logits(out.logits), y), 1.0), **method.loss(out, x, y)}


def entropy_of(config: LocalConfig, counts: Tensor) -> Entropy:
    """Return the cross-entropy of a client; with several labels, the mean over all of them.

    Args:
        config: the experiment.
        counts: the number of the client's training images of each class, [D] int64.
    """
    if config.task.multilabel:
        found: Entropy = named(BINARY)
        return found
    return cross_entropy(config.train, counts)


def cross_entropy(settings: Loss, counts: Tensor) -> Entropy:
    """Return the cross-entropy of a client: PyTorch's, with weights of its classes.

    Args:
        settings: how it is changed.
        counts: the number of the client's training images of each class, [D] int64.
    """
    if settings.plain:
        return F.cross_entropy
    weights = balanced(counts) if settings.class_weights == "balanced" else None

    def changed(logits: Tensor, y: Tensor) -> Tensor:
        smoothing = settings.label_smoothing
        return F.cross_entropy(wide(logits), y, weight=weights, label_smoothing=smoothing)

    return changed


def balanced(counts: Tensor) -> Tensor:
    """Return ``n / (K * n_c)`` for each of the K classes that have images, 0 for others; float32.

    The mean over all n images is 1.
    """
    present = counts > 0
    weights = counts.sum() / (present.sum() * counts.clamp(min=1))
    return torch.where(present, weights, 0.0).float()


def wide(values: Tensor) -> Tensor:
    """Return values in float32, or as they are in a wider type.

    Autocast on a CPU leaves functions such as ``log_softmax`` in bfloat16, where the gradient of a
    small difference is off by up to a tenth.
    """
    return values.to(torch.promote_types(values.dtype, torch.float32))


def divergence(logits: Tensor, toward: Tensor) -> Tensor:
    """Return ``KL(softmax(toward) || softmax(logits))``, a mean over rows; both are [n, D]."""
    student, target = F.log_softmax(wide(logits), dim=1), F.log_softmax(wide(toward), dim=1)
    value: Tensor = F.kl_div(student, target, reduction="batchmean", log_target=True)
    return value


def weighted_sum(terms: Mapping[str, Term]) -> Tensor:
    """Return the sum of weight * value over the terms, a scalar.

    A weight of exactly 1 is not multiplied, so that adding the option of a weight keeps all bits.
    """
    parts = [
        term.value
        if isinstance(term.weight, float) and term.weight == 1
        else term.value * term.weight
        for term in terms.values()
    ]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


class LossMeter:
    """Means of loss terms over images, kept on the device so that no step waits for it.

    Attributes:
        images: the images of all batches; the caller counts them, since a replayed step cannot.
    """

    def __init__(self) -> None:
        self._sums: dict[str, Tensor] = {}
        self.images = 0

    def add(self, terms: Mapping[str, Term], rows: int) -> None:
        """Add one batch of `rows` images, whose terms are means over the batch."""
        for name, term in terms.items():
            value = term.value.detach().double() * rows
            self._sums[name] = self._sums[name].add_(value) if name in self._sums else value

    def not_finite(self) -> str:
        """Return, for instance, "ce is nan" for the first term that is not finite, or "".

        Waits for the device.
        """
        means = self.means()
        return next((f"{name} is {v}" for name, v in means.items() if not math.isfinite(v)), "")

    def means(self) -> dict[str, float]:
        """Return the mean of each term per image; waits for the device."""
        return {name: float(total) / self.images for name, total in self._sums.items()}
