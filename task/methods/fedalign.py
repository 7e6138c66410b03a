"""FedAlign: align the Lipschitz constant of the last stage with that of a quarter of its width.

Loss: cross-entropy + mu * L_Lip * (cross-entropy / L_Lip), the factor without gradient.
Paper: Mendieta et al., "Local Learning Matters: Rethinking Data Heterogeneity in Federated
Learning", CVPR 2022, Eqs. 5 to 7 and Algorithm 1.
Hooks: ``start``, ``loss``, ``gradients``. Client state: none. Extra upload: none. Needs a residual
network. Extra compute: one more pass of the last stage at a quarter of its width.

Taken from the authors' release where the paper leaves something open:

* "Block L" is the last stage. Its input and its full-width maps get no gradient, so that this term
  trains only the narrow stage.
* The term is scaled to the value of the cross-entropy.
* The spectral norms take ten power iterations, and gradients are clipped at a norm of 10.

Difference from the release: the narrow stage reads all channels of its input, as the text at Eq. 7
says, and so does its transmitting matrix. ``subblock=release`` reads the first quarter of them. The
paper's Table 5 agrees with the release: a forward pass takes 1.8 million multiplications more than
FedAvg's (89.1 and 87.3).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F  # noqa: N812  (PyTorch's own abbreviation)
from torch import Tensor, nn

from task.errors import refuse
from task.methods.base import LocalRound, Method, Term
from task.models.base import Output
from task.models.layers.residual import ResidualNet
from task.optim.parameters import trained_parameters


def transmitting_matrix(before: Tensor, after: Tensor) -> Tensor:
    """Mean over positions of the products of input and output channels (Eqs. 6 and 7).

    Args:
        before: the stage's input, [n, C, h, w]; pooled to h' x w' if the resolutions differ.
        after: the stage's output, [n, C', h', w'].

    Returns:
        [n, C, C'].
    """
    before, after = pooled_like(before, after)
    return before @ after.mT / after.shape[2]


def pooled_like(before: Tensor, after: Tensor) -> tuple[Tensor, Tensor]:
    """Return both maps at the resolution of `after`, [n, C, positions] and [n, C', positions]."""
    height, width = after.shape[2:]
    return F.adaptive_avg_pool2d(before, (height, width)).flatten(2), after.flatten(2)


def spectral_norm(matrices: Tensor, iterations: int) -> Tensor:
    """Estimate the largest singular value of each matrix by power iteration.

    Args:
        matrices: [n, C, C'].
        iterations: at least 1.

    Returns:
        [n].
    """
    start = torch.ones_like(matrices[:, :, :1])
    return power_iteration(lambda vector: matrices @ (matrices.mT @ vector), start, iterations)


def lipschitz(before: Tensor, after: Tensor, iterations: int) -> Tensor:
    """Estimate the spectral norm of each image's transmitting matrix, as `spectral_norm` does.

    With few positions P the matrix M = B A^T / P is not made: its rank is at most P. Each product
    M M^T v is then B (G (B^T v)) with the P x P matrix G = A^T A / P^2, which differs by rounding.

    Args:
        before: the stage's input, [n, C, h, w].
        after: the stage's output, [n, C', h', w'].
        iterations: at least 1.

    Returns:
        [n].
    """
    positions = after.shape[2] * after.shape[3]
    if positions**2 > before.shape[1] * after.shape[1]:
        return spectral_norm(transmitting_matrix(before, after), iterations)
    b, a = pooled_like(before, after)
    b_t, gram = b.mT.contiguous(), a.mT @ a / positions**2

    def square(vector: Tensor) -> Tensor:
        # On a CPU these sums of products are several times faster than matrix products.
        projected = (b_t * vector.mT).sum(2, keepdim=True)
        weights = (gram * projected.mT).sum(2, keepdim=True)
        return (b_t * weights).sum(1, keepdim=True).mT

    return power_iteration(square, torch.ones_like(b[:, :, :1]), iterations)


def power_iteration(square: Callable[[Tensor], Tensor], vector: Tensor, iterations: int) -> Tensor:
    """Estimate the largest singular value of each matrix M.

    Args:
        square: returns M M^T v for vectors v, [n, C, 1].
        vector: where the iteration starts, [n, C, 1].
        iterations: at least 1.

    Returns:
        [n].
    """
    norm: Tensor = torch.linalg.vector_norm(vector, dim=1, keepdim=True)
    for _ in range(iterations):
        vector = square(vector / norm.clamp_min(1e-12))
        norm = torch.linalg.vector_norm(vector, dim=1, keepdim=True)
    return norm.flatten().clamp_min(1e-24).sqrt()


def lipschitz_gap(
    narrow_input: Tensor, narrow: Tensor, full_input: Tensor, full: Tensor, iterations: int
) -> Tensor:
    """L_Lip of Eq. 5: the mean squared difference of the two spectral norms, a scalar.

    Always computed in float32: it is the difference of two close numbers.

    Args:
        narrow_input: what the narrow stage read, [n, c, h, w].
        narrow: the narrow stage's output, [n, c', h', w'].
        full_input: the full stage's input, [n, C, h, w].
        full: the full stage's output, [n, C', h', w'].
        iterations: of the power iteration.
    """
    with torch.autocast(full_input.device.type, enabled=False):
        student = lipschitz(narrow_input.float(), narrow.float(), iterations)
        teacher = lipschitz(full_input.float(), full.float(), iterations)
        return F.mse_loss(student, teacher)


@dataclass
class FedAlign(Method):
    """Cross-entropy + mu * L_Lip, with L_Lip scaled to the cross-entropy (Eq. 5).

    Attributes:
        alignment_weight: mu, at least 0; 0 gives FedAvg, without clipping.
        width: the width of the narrow last stage, as a share of its channels, in (0, 1].
        power_iterations: for the spectral norms, at least 1.
        max_gradient_norm: the L2 norm at which the whole gradient is clipped, above 0.
        subblock: what the narrow stage reads of its input: all channels, as in the ``paper``, or
            the share `width` of them, as in the ``release``.
    """

    terms: ClassVar = ("l_lip",)
    residual: ClassVar = True
    narrows: ClassVar = True
    bounds_gradients: ClassVar = True
    uses_entropy: ClassVar = True
    replayable: ClassVar = True

    alignment_weight: float
    width: float
    power_iterations: int
    max_gradient_norm: float
    subblock: Literal["paper", "release"]

    def __post_init__(self) -> None:
        if self.alignment_weight < 0:
            refuse(self, "alignment_weight", "must be at least 0")
        if not 0 < self.width <= 1:
            refuse(self, "width", "must be above 0 and at most 1")
        if self.power_iterations < 1:
            refuse(self, "power_iterations", "must be at least 1")
        if self.max_gradient_norm <= 0:
            refuse(self, "max_gradient_norm", "must be above 0")

    def start(self, model: nn.Module, this: LocalRound) -> None:
        assert isinstance(model, ResidualNet)
        self._model = model

    def loss(self, out: Output, x: Tensor, y: Tensor) -> dict[str, Term]:
        if not self.alignment_weight:
            return {}
        assert out.stage_input is not None
        stage_input = out.stage_input.detach()
        narrow_input, narrow = self._model.narrower_last_stage(
            stage_input, self.width, whole_input=self.subblock == "paper"
        )
        assert out.maps is not None
        full = out.maps.detach()
        gap = lipschitz_gap(narrow_input, narrow, stage_input, full, self.power_iterations)
        cross_entropy = F.cross_entropy(out.logits.detach(), y)
        scale = cross_entropy / gap.detach().clamp_min(1e-12)
        return {"l_lip": Term(gap, self.alignment_weight * scale)}

    def gradients(self, model: nn.Module) -> None:
        if self.alignment_weight:
            parameters = trained_parameters(model).values()
            nn.utils.clip_grad_norm_(parameters, self.max_gradient_norm)
