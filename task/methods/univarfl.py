"""UniVarFL: keep class probabilities varied and features spread out, on the client alone.

Paper: Gupta, Jangid, Sethi, "UniVarFL: Uniformity and Variance Regularized Federated Learning for
Heterogeneous Data", Eqs. 1 to 4. Hooks: ``loss``. State kept, extra upload: none. Extra compute:
two small functions of the batch's logits and features; no second forward pass, no global model.

Where we decide what the paper leaves open:

* Eq. 2 and Eq. 1 use the same (unbiased) variance, so that c = 1/D exactly for D classes.
* Eq. 3's diagonal i = j is the constant 1/(n*eps) with gradient 0. It is left out: in float32 its
  rounding error drowns the gradient. The recorded value is lower by that constant.
* Eq. 3 is computed in float64. In float32, 1 - z_i.z_j carries an error of 1e-7 that its
  reciprocal squares: rows 1e-3 apart would get a gradient wrong by 5e-4 at eps = 1e-3, duplicates
  at eps = 1e-6 one of 2e4. In float64 every case agrees with Eq. 3 to 1e-6 relative, which is
  float32's own rounding.
* epsilon is 1e-3 after batch norm, where the features of a fresh projector spread out by themselves
  and any value up to 1 trains alike. Without it (``model.norm=group``) they begin nearly parallel,
  and the energy's gradient, in the order of eps^-1.5, throws the weights far off: there it is 0.3.
  RESULTS.md, "Defaults", has the measurements.
"""

import warnings
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from task.errors import refuse
from task.methods.base import LocalRound, Method, Term
from task.models.base import Output

EPS, EPS_WITHOUT_BATCH_NORM = 1e-3, 0.3


def classifier_variance(logits: Tensor) -> Tensor:
    """Eq. 1: how far each class's probability varies less over the batch than one-hot ones would.

    ``mean_j max(0, c - Var(p_j))`` with c = 1/D (Eq. 2). 0 for a batch of one row, which has no
    variance.

    Args:
        logits: [n, D], any float type; computed in float32 at least.

    Returns:
        A scalar in [0, 1/D].
    """
    rows, classes = logits.shape
    if rows < 2:
        return logits.new_zeros(())
    variance = torch.softmax(logits.float(), dim=1).var(dim=0)
    return torch.relu(1 / classes - variance).mean()


def hyperspherical_energy(features: Tensor, eps: float) -> Tensor:
    """Eq. 3 without its constant diagonal: the mean repulsion of features on the unit sphere.

    ``1/n^2 * sum_{i != j} 1 / (1 - z_i.z_j + eps)`` with z the L2-normalised features. A row of
    zeros has no direction: it stays at the origin and receives no gradient.

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
    """Eq. 4: cross-entropy + mu * L_HE + lambda * L_V. A weight of 0 leaves its term out.

    Attributes:
        energy_weight: mu, the weight of the hyperspherical energy.
        variance_weight: lambda, the weight of the classifier variance; None is D/4 for D classes.
        energy_eps: epsilon of Eq. 3; None is 1e-3 for features behind batch norm, else 0.3.
    """

    terms: ClassVar = ("l_v", "l_he")

    energy_weight: float
    variance_weight: float | None
    energy_eps: float | None

    _usual_eps = EPS

    def __post_init__(self) -> None:
        if self.energy_weight < 0:
            refuse(self, "energy_weight", "must be at least 0")
        if self.variance_weight is not None and self.variance_weight < 0:
            refuse(self, "variance_weight", "must be at least 0, or null for classes / 4")
        if self.energy_eps is None:
            return
        if self.energy_eps <= 0:
            refuse(self, "energy_eps", "must be above 0, or null for the network's usual one")
        if self.energy_eps < 1e-4:
            warnings.warn(
                f"method.energy_eps={self.energy_eps:g} is below 1e-4: features that nearly "
                "coincide get gradients in the order of eps^-1.5, and training may diverge",
                stacklevel=2,
            )

    def start(self, model: nn.Module, this: LocalRound) -> None:
        normalised = any(isinstance(layer, nn.BatchNorm1d) for layer in model.modules())
        self._usual_eps = EPS if normalised else EPS_WITHOUT_BATCH_NORM

    def loss(self, out: Output, x: Tensor, y: Tensor) -> dict[str, Term]:
        """L_V on the logits and L_HE on the features."""
        weight = out.logits.shape[1] / 4 if self.variance_weight is None else self.variance_weight
        terms = {}
        if weight:
            terms["l_v"] = Term(classifier_variance(out.logits), weight)
        if self.energy_weight:
            energy = hyperspherical_energy(out.features, self.energy_eps or self._usual_eps)
            terms["l_he"] = Term(energy, self.energy_weight)
        return terms
