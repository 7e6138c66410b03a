"""The loss and the metrics of logits whose sigmoid is the probability of each label.

A label is said to be there if its probability is above `task.config.GIVEN_ABOVE`.
"""

import numpy as np
import torch.nn.functional as F  # noqa: N812  (PyTorch's own abbreviation)
from torch import Tensor

from task.config import GIVEN_ABOVE
from task.training.evaluation import Metrics, Score
from task.training.losses import wide
from task.training.one_vs_rest import ClassMetrics, OneVsRest, ranking


def entropy(logits: Tensor, y: Tensor) -> Tensor:
    """Return the binary cross-entropy, a mean over examples and labels.

    Args:
        logits: [n, D].
        y: [n, D], 0 or 1.
    """
    return F.binary_cross_entropy_with_logits(wide(logits), y)


def score(logits: Tensor, y: Tensor) -> Score:
    """Return the score of logits against labels, both [n, D].

    An example counts as correct if all of its labels are right. Its loss is the mean over labels.
    """
    losses = F.binary_cross_entropy_with_logits(logits, y, reduction="none").double()
    right = (predicted(logits) == y.bool()).all(dim=1)
    return Score(len(y), int(right.sum()), float(losses.mean(dim=1).sum()))


def metrics(logits: Tensor, y: Tensor) -> Metrics:
    """Return every metric of logits against labels, both [n, D], n at least 1."""
    said, truth = predicted(logits), y.bool()
    hits = (said & truth).sum(dim=0).double()
    positives, taken = truth.sum(dim=0), said.sum(dim=0)
    present, relevant = positives > 0, positives + taken > 0
    recall = hits / positives
    specificity = (~said & ~truth).sum(dim=0) / (~truth).sum(dim=0)
    both = present & (positives < len(y))
    means = {
        **score(logits, y).means(),
        "label_accuracy": float((said == truth).double().mean()),
    }
    if both.any():
        means["balanced_accuracy"] = float(((recall + specificity) / 2)[both].mean())
    if relevant.any():
        means["macro_f1"] = float((2 * hits / (positives + taken))[relevant].mean())
    by_class = {
        label: (int(positives[label]), float(recall[label]))
        for label in present.nonzero().view(-1).tolist()
    }
    return Metrics(means, by_class)


def by_label(logits: Tensor, y: Tensor) -> OneVsRest:
    """Return the metrics of each label, of logits against labels, both [n, D], n at least 1.

    There is no confusion matrix, since a label is not taken for another one.
    """
    probabilities = logits.sigmoid().numpy().astype(np.float64)
    said, truth = predicted(logits).numpy(), y.bool().numpy()
    found = []
    for label in range(logits.shape[1]):
        is_there, is_said = truth[:, label], said[:, label]
        images, others = int(is_there.sum()), int((~is_there).sum())
        hits, rejected = int((is_there & is_said).sum()), int((~is_there & ~is_said).sum())
        area, precision = ranking(is_there, probabilities[:, label])
        found.append(
            ClassMetrics(
                images,
                hits / images if images else None,
                rejected / others if others else None,
                area,
                precision,
            )
        )
    return OneVsRest(found, ())


def predicted(logits: Tensor) -> Tensor:
    """Return which labels an example is said to have, [n, D] bool."""
    return logits.sigmoid() > GIVEN_ABOVE
