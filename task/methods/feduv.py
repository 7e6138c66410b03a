"""FedUV: regularisers for the deviation of class probabilities and the uniformity of features.

Loss: cross-entropy + mu * L_U (Eq. 4) + lambda * L_V (Eq. 2).
Paper: Son, Kim, Chung, Huang, Liu, "FedUV: Uniformity and Variance for Heterogeneous Federated
Learning", CVPR 2024, Eqs. 2 to 4. UniVarFL is based on it.
Hooks: ``loss``. Client state: none. Extra upload: none.
Extra compute: two small functions of the batch's logits [n, D] and features [n, d].

Our choices:

* Eqs. 2 and 3 use the same (unbiased) standard deviation, so that c = 1/sqrt(D) for D classes.
* Eq. 4 averages over pairs of different rows: a row with itself adds only a constant.
* sigma, the median of the squared distances, sets the scale of Eq. 4 and gets no gradient.

Difference from the authors' release: the exponent of Eq. 4 is -d^2 / (2 sigma), as in the paper.
The release has -d^2 / sigma, leaves distances of 0 out of the median, and differentiates the
median, too. ``sigma=release`` does the same.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from task.errors import refuse
from task.methods.base import Method, Term
from task.models.base import Output

Sigma = Literal["paper", "release"]


def classifier_deviation(logits: Tensor) -> Tensor:
    """Mean hinge loss on per-class probability standard deviation below 1/sqrt(D) (Eq. 2).

    ``mean_j max(0, c - Std(p_j))`` with c = 1/sqrt(D), the deviation of one-hot probabilities
    (Eq. 3). 0 for a batch of one row, which has no deviation.

    Args:
        logits: [n, D], any float type; computed in float32.

    Returns:
        A scalar in [0, 1/sqrt(D)].
    """
    rows, classes = logits.shape
    if rows < 2:
        return logits.new_zeros(())
    deviation = torch.softmax(logits.float(), dim=1).std(dim=0)
    return torch.relu(classes**-0.5 - deviation).mean()


def uniformity(features: Tensor, kind: Sigma = "paper") -> Tensor:
    """Mean Gaussian potential of pairs of rows, ``exp(-||x - y||^2 / (2 sigma))`` (Eq. 4).

    Args:
        features: [n, d], any float type. Computed in float64: in float32 the distance of two close
            rows would be lost in the rounding of their norms.
        kind: ``release`` takes ``exp(-||x - y||^2 / sigma)``, with sigma the median of the squared
            distances above 0, which gets a gradient.

    Returns:
        A float32 scalar in (0, 1]; 0 for one row, which has no pairs.
    """
    rows = features.shape[0]
    if rows < 2:
        return features.new_zeros(())
    wide = features.double()
    products = wide @ wide.T
    square = products.diagonal()
    distance = (square[:, None] + square - 2 * products).clamp_min(0)
    i, j = torch.triu_indices(rows, rows, offset=1, device=wide.device)
    pairs = distance[i, j]
    scale = positive_median(pairs) if kind == "release" else 2 * pairs.detach().median()
    scale = scale.where(scale > 0, 1)  # identical rows: every distance is 0, whatever the scale
    itself = torch.eye(rows, dtype=torch.bool, device=wide.device)
    energy: Tensor = torch.exp(distance / -scale).masked_fill(itself, 0).sum()
    return (energy / (rows * (rows - 1))).float()


def positive_median(values: Tensor) -> Tensor:
    """Return the lower median of the values above 0, a scalar with a gradient; 0 if there is none.

    It is that of `torch.nanmedian`, which would make the CPU wait for a GPU.
    """
    positive = values.detach() > 0
    ordered = values.detach().where(positive, torch.inf).sort().values
    middle = ((positive.sum() - 1) // 2).clamp_min(0)
    equal = (values == ordered.gather(0, middle.view(1))) & positive
    return values.where(equal, 0).sum() / equal.sum().clamp_min(1)


@dataclass
class FedUV(Method):
    """Cross-entropy + mu * L_U + lambda * L_V. A weight of 0 removes its term.

    Attributes:
        uniformity_weight: mu, the weight of Eq. 4, at least 0.
        deviation_weight: lambda, the weight of Eq. 2, at least 0; None means D/4 for D classes.
        sigma: the scale of Eq. 4, as in the ``paper`` or in the ``release``; see `uniformity`.
    """

    terms: ClassVar = ("l_v", "l_u")
    replayable: ClassVar = True

    uniformity_weight: float
    deviation_weight: float | None
    sigma: Sigma

    def __post_init__(self) -> None:
        if self.uniformity_weight < 0:
            refuse(self, "uniformity_weight", "must be at least 0")
        if self.deviation_weight is not None and self.deviation_weight < 0:
            refuse(self, "deviation_weight", "must be at least 0, or null for classes / 4")

    def loss(self, out: Output, x: Tensor, y: Tensor) -> dict[str, Term]:
        classes = out.logits.shape[1]
        weight = classes / 4 if self.deviation_weight is None else self.deviation_weight
        terms = {}
        if weight:
            terms["l_v"] = Term(classifier_deviation(out.logits), weight)
        if self.uniformity_weight:
            terms["l_u"] = Term(uniformity(out.features, self.sigma), self.uniformity_weight)
        return terms
