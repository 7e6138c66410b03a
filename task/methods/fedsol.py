"""FedSOL: gradients are computed at weights perturbed away from the global model's predictions.

Loss: cross-entropy at w + e. P is KL(global || local) of the softmax at temperature T, g the
gradient of P at w, and e = rho * g / ||g||. The adaptive form multiplies each entry of e by a.
Paper: Lee et al., "FedSOL: Stabilized Orthogonal Learning with Proximal Restrictions in Federated
Learning", CVPR 2024. We have not read it: the equations are those of the authors' release,
github.com/Lee-Gihun/FedSOL.
Hooks: ``build``, ``start``, ``batch``, ``gradients``, ``clean``. Client state: none. Extra upload:
none.
Extra compute: one more forward and backward pass, and the global model's forward pass, per step.
Extra memory: one more model, two copies of the parameters.

a = |w - w_global| of each tensor, divided by its norm along the first dimension.

As in the release:

* The global model is in training mode. In eval mode it would differ from the local model through
  the statistics of batch norm alone, before any step.
* Batch norm's statistics move in the first pass, at w, and not at w + e.

Our choice: e is 0 where both models have the same logits, bit for bit, as at the first step, when w
is the global model. There g is rounding noise, which the fixed form would stretch to the length
rho. With ``stochdepth`` the global model drops no block, so they differ from the first step.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from task.errors import refuse
from task.methods.base import LocalRound, Method
from task.optim.parameters import snapshot, teacher, trained_parameters
from task.training.losses import divergence

SMALL = 1e-12


def perturbation(gradients: list[Tensor], radius: float) -> list[Tensor]:
    """Return ``radius * g / ||g||`` over all tensors; zeros where g is 0."""
    norm = torch.stack(torch._foreach_norm(gradients)).norm()
    return list(torch._foreach_mul(gradients, radius / (norm + SMALL)))


def moved_shares(parameter: Tensor, start: Tensor) -> Tensor:
    """Return ``|w - w_global|`` divided by its norm along the first dimension; 0 where that is 0.

    Args:
        parameter: w, of any shape.
        start: w_global, in the same shape.
    """
    moved = (parameter - start).abs()
    norm: Tensor = moved
    if moved.dim():
        norm = torch.linalg.vector_norm(moved, dim=0, keepdim=True)
    return moved / norm.clamp_min(SMALL)


@dataclass
class FedSOL(Method):
    """Cross-entropy with gradients at w + e.

    Attributes:
        radius: rho, at least 0, the norm of e in the fixed form; 0 gives FedAvg.
        temperature: T of the softmax in P, above 0.
        adaptive: whether e is multiplied by a.
    """

    varies_network: ClassVar = True
    perturbs: ClassVar = True
    replayable: ClassVar = True

    radius: float
    temperature: float
    adaptive: bool

    def __post_init__(self) -> None:
        if self.radius < 0:
            refuse(self, "radius", "must be at least 0")
        if self.temperature <= 0:
            refuse(self, "temperature", "must be above 0")

    def build(self, model: nn.Module, generator: torch.Generator) -> nn.Module:
        self._teacher: nn.Module | None = None
        return model

    def start(self, model: nn.Module, this: LocalRound) -> None:
        self._teacher = teacher(model, self._teacher)
        for own, other in zip(self._teacher.modules(), model.modules(), strict=True):
            own.training = other.training
        self._model = model
        self._parameters: list[Tensor] = list(trained_parameters(model).values())
        self._global = list(snapshot(model).values())
        self._kept = [value.clone() for value in self._global]
        move_statistics(model, True)

    def batch(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        if not self.radius or self._teacher is None:
            return x, y
        with torch.no_grad():
            toward = self._teacher(x).logits
        own = self._model(x).logits
        value = divergence(own / self.temperature, toward / self.temperature)
        trained = [one for one in self._parameters if one.requires_grad]
        found = iter(torch.autograd.grad(value, trained, materialize_grads=True))
        with torch.no_grad():
            slopes = [
                next(found) if one.requires_grad else torch.zeros_like(one)
                for one in self._parameters
            ]
            differ = (own != toward).any()
            move = list(torch._foreach_mul(perturbation(slopes, self.radius), differ.float()))
            if self.adaptive:
                shares = map(moved_shares, self._parameters, self._global)
                move = list(torch._foreach_mul(move, list(shares)))
            torch._foreach_copy_(self._kept, self._parameters)
            torch._foreach_add_(self._parameters, move)
        move_statistics(self._model, False)
        return x, y

    @torch.no_grad()
    def gradients(self, model: nn.Module) -> None:
        if self.radius:
            torch._foreach_copy_(self._parameters, self._kept)
            move_statistics(model, True)

    def clean(self, model: nn.Module) -> None:
        move_statistics(model, True)


def move_statistics(model: nn.Module, moves: bool) -> None:
    """Let batch norm's statistics move in the next forward passes in training mode, or not."""
    for layer in model.modules():
        if isinstance(layer, _BatchNorm):
            layer.track_running_stats = moves
