"""UniVarFL: regularisers for the variance of class probabilities and the uniformity of features.

Loss: cross-entropy + mu * L_HE (Eq. 3) + lambda * L_V (Eq. 1), together Eq. 4.
Paper: Gupta, Jangid, Sethi, "UniVarFL: Uniformity and Variance Regularized Federated Learning for
Heterogeneous Data", Eqs. 1 to 4.
Hooks: ``start``, ``loss``. Client state: none. Extra upload: none.
Extra compute: two small functions of the batch's logits [n, D] and features [n, d]; no second
forward pass and no copy of the global model.

Our choices where the paper leaves something open:

* Eqs. 1 and 2 use the same (unbiased) variance, so that c = 1/D exactly for D classes.
* The diagonal i = j of Eq. 3 is the constant 1/(n*eps), whose gradient is 0. It is left out, since
  in float32 its rounding error is larger than the gradient. The recorded L_HE is lower than Eq. 3
  by this constant.
* Eq. 3 is computed in float64. In float32, 1 - z_i.z_j has an error of 1e-7, and the gradient of
  the reciprocal magnifies it. At eps = 1e-3, the gradient of rows 1e-3 apart would be wrong by
  5e-4; at eps = 1e-6, that of equal rows by 2e4. In float64, every case agrees with Eq. 3 to a
  relative error of 1e-6, the rounding of float32.
* epsilon is 1e-3 behind batch norm. There the features of a new projector spread out by
  themselves, and any value up to 1 trains alike. Without batch norm in the projector, as with
  ``model.norm=group``, ``model.projector=plain`` or ``none``, the
  features start nearly parallel, and the gradient of the energy, of the order of eps^-1.5, makes
  training diverge; epsilon is then 0.3. In a network without any normalisation features are also
  short, and the gradient of the energy is that of their direction divided by their length: at 0.3
  it is up to four times that of the cross-entropy, and LeNet stays at chance. epsilon is then 3,
  which gives the energy a tenth of the first gradient, as behind batch norm.
  ``docs/results/defaults.md`` has the measurements.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from task.errors import refuse
from task.methods.base import LocalRound, Method, Term
from task.models.base import Output
from task.models.layers.norm import NORMALISATIONS
from task.registry import named

DEVIATION = "task.methods.feduv:classifier_deviation"
EPS, EPS_WITHOUT_BATCH_NORM, EPS_WITHOUT_NORM = 1e-3, 0.3, 3.0


def classifier_variance(logits: Tensor) -> Tensor:
    """Mean hinge loss on per-class probability variance below 1/D (Eq. 1).

    ``mean_j max(0, c - Var(p_j))`` with c = 1/D, the variance of one-hot probabilities (Eq. 2). 0
    for a batch of one row, which has no variance.

    Args:
        logits: [n, D], any float type; computed in float32.

    Returns:
        A scalar in [0, 1/D].
    """
    rows, classes = logits.shape
    if rows < 2:
        return logits.new_zeros(())
    variance = torch.softmax(logits.float(), dim=1).var(dim=0)
    return torch.relu(1 / classes - variance).mean()


def hyperspherical_energy(features: Tensor, eps: float) -> Tensor:
    """Hyperspherical energy of the features (Eq. 3), without its constant diagonal.

    ``1/n^2 * sum_{i != j} 1 / (1 - z_i.z_j + eps)`` with z the L2-normalised features. A row of
    zeros has no direction: it stays zero and gets no gradient.

    Args:
        features: [n, d], any float type; computed in float64.
        eps: the paper's epsilon, above 0.

    Returns:
        A float32 scalar, above 0 for two rows or more and 0 for one.
    """
    rows = features.shape[0]
    wide = features.double()
    norm = torch.linalg.vector_norm(wide, dim=1, keepdim=True)
    z = wide / norm.masked_fill(norm == 0, torch.inf)
    repulsion = (1 + eps - z @ z.T).reciprocal()
    off_diagonal = repulsion.masked_fill(torch.eye(rows, dtype=torch.bool, device=z.device), 0)
    energy: Tensor = off_diagonal.sum() / rows**2
    return energy.float()


@dataclass
class UniVarFL(Method):
    """Cross-entropy + mu * L_HE + lambda * L_V (Eq. 4). A weight of 0 removes its term.

    Attributes:
        energy_weight: mu, the weight of the hyperspherical energy, at least 0.
        variance_weight: lambda, the weight of the classifier variance, at least 0; None means D/4
            for D classes.
        energy_eps: epsilon of Eq. 3, above 0; None means 1e-3 for features behind batch norm, 3 in
            a network without normalisation, else 0.3. Below 1e-4 it warns that training may
            diverge.
        hinge: what L_V bounds: the ``variance`` of each class's probability (Eq. 1), or its
            standard ``deviation``, as FedUV does. With few certain answers, the gradient of the
            deviation is ten times as large.
    """

    terms: ClassVar = ("l_v", "l_he")
    replayable: ClassVar = True
    cure_for_labels: ClassVar = "add method.variance_weight=0, which leaves L_HE alone"

    energy_weight: float
    variance_weight: float | None
    energy_eps: float | None
    hinge: Literal["variance", "deviation"]

    _default_eps = EPS

    def __post_init__(self) -> None:
        if self.energy_weight < 0:
            refuse(self, "energy_weight", "must be at least 0")
        if self.variance_weight is not None and self.variance_weight < 0:
            refuse(self, "variance_weight", "must be at least 0, or null for classes / 4")
        if self.energy_eps is None:
            return
        if self.energy_eps <= 0:
            refuse(self, "energy_eps", "must be above 0, or null for the default of the network")
        if self.energy_eps < 1e-4:
            warnings.warn(
                f"method.energy_eps={self.energy_eps:g} is below 1e-4: nearly identical features "
                "get gradients of the order of eps^-1.5, and training may diverge",
                stacklevel=2,
            )

    @property
    def multilabel(self) -> bool:  # type: ignore[override]
        """Whether L_V, whose bound of 1/D is that of one class, is left out."""
        return self.variance_weight == 0

    def start(self, model: nn.Module, this: LocalRound) -> None:
        layers = list(model.modules())
        if any(isinstance(layer, nn.BatchNorm1d) for layer in layers):
            self._default_eps = EPS
        elif any(isinstance(layer, NORMALISATIONS) for layer in layers):
            self._default_eps = EPS_WITHOUT_BATCH_NORM
        else:
            self._default_eps = EPS_WITHOUT_NORM

    def loss(self, out: Output, x: Tensor, y: Tensor) -> dict[str, Term]:
        """Return L_V of the logits and L_HE of the features."""
        weight = out.logits.shape[1] / 4 if self.variance_weight is None else self.variance_weight
        terms = {}
        if weight:
            terms["l_v"] = Term(self._spread(out.logits), weight)
        if self.energy_weight:
            energy = hyperspherical_energy(out.features, self.energy_eps or self._default_eps)
            terms["l_he"] = Term(energy, self.energy_weight)
        return terms

    def _spread(self, logits: Tensor) -> Tensor:
        """Return L_V of logits [n, D] with the chosen hinge."""
        deviates = self.hinge == "deviation"
        term: Callable[[Tensor], Tensor] = named(DEVIATION) if deviates else classifier_variance
        return term(logits)
