"""FedRCL: contrast between classes at several depths, and a penalty on images that are too close.

Loss: cross-entropy + lambda * L_scl + mu * L_pen, each term a mean over the network's levels.
Paper: Seo et al., "Relaxed Contrastive Learning for Federated Learning", CVPR 2024. We have
not read it: the equations are from the authors' release, github.com/skynbe/FedRCL (utils/loss.py).
Hooks: ``build``, ``loss``. Client state: none. Extra upload: none.
Extra compute: an n x n matrix of similarities for each level of a batch of n images.

s_ij is the cosine similarity of images i and j at one level, and T the temperature.

* L_scl of image i: -log(e^(s+/T) / (e^(s+/T) + sum of e^(s-/T))). s+ is the smallest similarity to
  an image of the same class, itself included. The s- are the largest ones to other classes.
* L_pen of image i: log(1 + e^((m - 1)/T)), with m the smallest similarity to another image of its
  class. If m is below the threshold, or there is no such image, m is -1 and gets no gradient.

A level is the pooled map before the ReLU that ends a resolution: stem and stages of a ResNet, three
resolutions of the CNN, both convolutions of LeNet-5.

Where the release differs from ours: it also runs the global model, with a weight of 0.

Our choices:

* Similarities are computed in float64, also with bfloat16.
* Pooled maps of 0 have the similarity 0 to all others, and get the gradient of maps of length 1.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F  # noqa: N812  (PyTorch's own abbreviation)
from torch import Tensor, nn

from task.errors import refuse
from task.methods.base import Method, Term
from task.models.base import Network, Output

SMALLEST_NORM = 1e-12
FARTHEST = -1.0  # the smallest cosine similarity


def similarities(level: Tensor) -> Tensor:
    """Return the cosine similarities of all pairs of rows, [n, n] in float64; level [n, C]."""
    wide = level.double()
    norms = torch.linalg.vector_norm(wide, dim=1, keepdim=True)
    unit = wide / norms.where(norms > SMALLEST_NORM, 1.0)
    products: Tensor = unit @ unit.T
    return products


def contrast(near: Tensor, labels: Tensor, temperature: float, negatives: int) -> Tensor:
    """Return L_scl, a mean over rows; 0 if all rows have one class.

    Args:
        near: similarities, [n, n].
        labels: classes, [n] int64.
        temperature: T, above 0.
        negatives: how many similarities to other classes enter, at least 1.
    """
    same = labels[:, None] == labels
    scaled = near / temperature
    positive = scaled.masked_fill(~same, torch.inf).amin(dim=1, keepdim=True)
    others = scaled.masked_fill(same, -torch.inf).topk(min(negatives, len(labels)), dim=1).values
    return (torch.cat([positive, others], dim=1).logsumexp(dim=1) - positive[:, 0]).mean()


def penalty(near: Tensor, labels: Tensor, temperature: float, threshold: float) -> Tensor:
    """Return L_pen, a mean over rows.

    Args:
        near: similarities, [n, n].
        labels: classes, [n] int64.
        temperature: T, above 0.
        threshold: the similarity from which a row is penalised.
    """
    same = labels[:, None] == labels
    partner = same & ~torch.eye(len(labels), dtype=torch.bool, device=labels.device)
    least = near.masked_fill(~partner, torch.inf).amin(dim=1)
    counts = (least >= threshold) & least.isfinite()
    return F.softplus((least.where(counts, FARTHEST) - 1) / temperature).mean()


@dataclass
class FedRCL(Method):
    """Cross-entropy + lambda * L_scl + mu * L_pen. A weight of 0 removes its term.

    Attributes:
        contrast_weight: lambda, at least 0.
        penalty_weight: mu, at least 0.
        contrast_temperature: T of both terms, above 0.
        penalty_threshold: the similarity from which images of a class are too close, from -1 to 1.
        hardest_negatives: the number of images of other classes, the most similar ones, that each
            image is compared with in L_scl; at least 1.
    """

    terms: ClassVar = ("l_scl", "l_pen")
    trains_features: ClassVar = True
    needs_levels: ClassVar = True
    needs_classes: ClassVar = True
    replayable: ClassVar = True

    contrast_weight: float
    penalty_weight: float
    contrast_temperature: float
    penalty_threshold: float
    hardest_negatives: int

    def __post_init__(self) -> None:
        for name in ("contrast_weight", "penalty_weight"):
            if getattr(self, name) < 0:
                refuse(self, name, "must be at least 0")
        if self.contrast_temperature <= 0:
            refuse(self, "contrast_temperature", "must be above 0")
        if not FARTHEST <= self.penalty_threshold <= 1:
            refuse(self, "penalty_threshold", "must be from -1 to 1")
        if self.hardest_negatives < 1:
            refuse(self, "hardest_negatives", "must be at least 1")

    def build(self, model: nn.Module, generator: torch.Generator) -> nn.Module:
        if self.contrast_weight or self.penalty_weight:
            assert isinstance(model, Network)
            model.with_levels = True
        return model

    def loss(self, out: Output, x: Tensor, y: Tensor) -> dict[str, Term]:
        near = [similarities(level) for level in out.levels]
        terms = {}
        if self.contrast_weight:
            values = [
                contrast(each, y, self.contrast_temperature, self.hardest_negatives)
                for each in near
            ]
            terms["l_scl"] = Term(torch.stack(values).mean().float(), self.contrast_weight)
        if self.penalty_weight:
            values = [
                penalty(each, y, self.contrast_temperature, self.penalty_threshold) for each in near
            ]
            terms["l_pen"] = Term(torch.stack(values).mean().float(), self.penalty_weight)
        return terms
