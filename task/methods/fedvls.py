"""FedVLS: keeps what the global model knows of the classes that a client does not have.

Loss: cross-entropy of f + log q, + lambda * L_dis + w * L_logit, where q_c is the share of class c
among the client's images. A class with q_c = 0 is vacant.
Paper: Guo, Wang, Geng, "Federated Learning with Vacant-Class Distillation and Logit Suppression"
(FedVLS), AAAI 2025. Release: github.com/krumpguo/FedVLS.
Hooks: ``build``, ``start``, ``logits``, ``loss``. Client state: none. Extra upload: none.
Extra compute: one more forward pass per step. Extra memory: one more model.

* L_dis: KL(global || local) of the softmax over the vacant classes alone. The paper prints the
  ratio upside down; the release minimises this form.
* L_logit = sum_c q_c * log(mean over images of e^(f_c), where images of class c add nothing).

Where the release differs from the paper (``suppression: release``, the default):

* L_logit uses f_c - log(q_c + 1e-9) + log(1/D + 1e-9), and an image of class c adds e^0 = 1. Its
  weight is 0.005; the paper has no weight.
* log q is log(q + 1e-9), which lowers vacant logits by 20.7. Ours does the same in both forms.
* It has no weight decay whatever is set, and its global model is in training mode. Ours follows
  ``optim.weight_decay``, and the global model is in eval mode, as MOON's is.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F  # noqa: N812  (PyTorch's own abbreviation)
from torch import Tensor, nn

from task.errors import refuse
from task.methods.base import LocalRound, Method, Term
from task.models.base import Output
from task.optim.parameters import teacher
from task.training.losses import divergence, wide

SMALL = 1e-9  # is added to shares before their logarithm


def vacant_class_distillation(logits: Tensor, toward: Tensor, vacant: Tensor) -> Tensor:
    """Return KL(toward || logits) of the softmax over the vacant classes, a mean over rows.

    Args:
        logits: of the model in training, [n, D].
        toward: of the global model, [n, D].
        vacant: which classes the client does not have, [D] bool.

    Returns:
        A scalar; 0 if fewer than two classes are vacant.
    """
    lowest = torch.finfo(logits.dtype).min / 2
    return divergence(*(each.masked_fill(~vacant, lowest) for each in (logits, toward)))


def suppression(logits: Tensor, labels: Tensor, shares: Tensor) -> Tensor:
    """Return the paper's L_logit; a class that all images have adds 0.

    Args:
        logits: f, [n, D].
        labels: the true classes, [n] int64.
        shares: q, [D], which add up to 1.
    """
    logits = wide(logits)
    own = F.one_hot(labels, logits.shape[1]).bool()
    lowest = torch.finfo(logits.dtype).min / 2
    means = logits.masked_fill(own, lowest).logsumexp(dim=0) - math.log(len(logits))
    return (shares * means.masked_fill(own.all(dim=0), 0)).sum()


def released_suppression(logits: Tensor, labels: Tensor, shares: Tensor) -> Tensor:
    """Return the release's L_logit without its weight; arguments as for `suppression`."""
    classes = logits.shape[1]
    shifted = wide(logits) - (shares + SMALL).log() + math.log(1 / classes + SMALL)
    others = shifted.masked_fill(F.one_hot(labels, classes).bool(), 0)
    return (shares * (others.logsumexp(dim=0) - math.log(len(logits)))).sum()


SUPPRESSIONS = {"paper": suppression, "release": released_suppression}


@dataclass
class FedVLS(Method):
    """Calibrated cross-entropy + lambda * L_dis + w * L_logit.

    Attributes:
        calibration_weight: what log q is multiplied by, at least 0; the paper has 1.
        distillation_weight: lambda, at least 0.
        suppression_weight: w, at least 0. With all three weights 0 it is FedAvg.
        suppression: the form of L_logit, ``paper`` or ``release``.
    """

    terms: ClassVar = ("l_dis", "l_logit")
    needs_classes: ClassVar = True
    replayable: ClassVar = True

    calibration_weight: float
    distillation_weight: float
    suppression_weight: float
    suppression: Literal["paper", "release"]

    def __post_init__(self) -> None:
        for name in ("calibration_weight", "distillation_weight", "suppression_weight"):
            if getattr(self, name) < 0:
                refuse(self, name, "must be at least 0")

    def build(self, model: nn.Module, generator: torch.Generator) -> nn.Module:
        self._teacher: nn.Module | None = None
        return model

    def start(self, model: nn.Module, this: LocalRound) -> None:
        self._teacher = teacher(model, self._teacher)
        self._shares = this.counts / this.counts.sum()

    def logits(self, logits: Tensor) -> Tensor:
        if not self.calibration_weight:
            return logits
        return logits + self.calibration_weight * (self._shares + SMALL).log()

    def loss(self, out: Output, x: Tensor, y: Tensor) -> dict[str, Term]:
        terms = {}
        if self.distillation_weight and self._teacher is not None:
            with torch.no_grad():
                toward = self._teacher(x).logits
            value = vacant_class_distillation(out.logits, toward, self._shares == 0)
            terms["l_dis"] = Term(value, self.distillation_weight)
        if self.suppression_weight:
            value = SUPPRESSIONS[self.suppression](out.logits, y, self._shares)
            terms["l_logit"] = Term(value, self.suppression_weight)
        return terms
