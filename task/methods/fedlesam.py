"""FedLESAM: gradients are taken at weights moved towards the client's previous global model.

Loss: cross-entropy at w + e, with e = rho * (w_old - w_t) / ||w_old - w_t||; w_t is the global
model of this round, w_old that of the client's last accepted update.
Paper: Fan et al., "Locally Estimated Global Perturbations are Better than Local Perturbations for
Federated Sharpness-aware Minimization", ICML 2024. We have not read it: the equation is that of its
abstract and of the authors' release, github.com/MediaBrain-SJTU/FedLESAM.
Hooks: ``start``, ``batch``, ``gradients``, ``finish``. Client state: the last global weights, as
large as the model. Extra upload: none. Extra compute: three passes over the parameters per step.

Where the release differs from the paper: it sends every client the last change of the global model
instead of keeping w_old. For the k-th tensor of the model, it adds a single number to all entries:
entry k of the flattened change. Here both are as in the paper.

Our choices:

* Nothing is perturbed in a client's first round, or if the global model has not changed.
* Restored weights are copies: w + e - e is not w in float32.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from task.errors import refuse
from task.methods.base import LocalRound, Method, Outcome
from task.optim.parameters import snapshot, trained_parameters

LEAST_NORM = 1e-30


def toward_previous(previous: list[Tensor], now: list[Tensor], radius: float) -> list[Tensor]:
    """Return ``radius * (previous - now) / ||previous - now||``; zeros where both are equal.

    Args:
        previous: w_old, a list of tensors.
        now: w_t, in the same order and shapes.
        radius: rho, the norm of the result over all tensors.
    """
    change = torch._foreach_sub(previous, now)
    norm = torch.stack(torch._foreach_norm(change)).norm()
    return list(torch._foreach_mul(change, radius / norm.clamp_min(LEAST_NORM)))


@dataclass
class FedLESAM(Method):
    """Cross-entropy with gradients at w + e.

    Attributes:
        radius: rho, at least 0, the norm of e; 0 gives FedAvg.
    """

    keeps_state: ClassVar = True
    separable: ClassVar = True
    perturbs: ClassVar = True
    follows_global: ClassVar = True
    replayable: ClassVar = True
    multilabel: ClassVar = True

    radius: float

    def __post_init__(self) -> None:
        if self.radius < 0:
            refuse(self, "radius", "must be at least 0")

    def start(self, model: nn.Module, this: LocalRound) -> None:
        self._parameters: list[Tensor] = list(trained_parameters(model).values())
        self._global = snapshot(model)
        self._move: list[Tensor] = []
        self._moved = False
        if self.radius and this.state:
            previous = [this.state[name] for name in self._global]
            self._move = toward_previous(previous, list(self._global.values()), self.radius)
            self._kept = [value.clone() for value in self._global.values()]

    @torch.no_grad()
    def batch(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        if self._move and not self._moved:  # DP-SGD takes a batch in several parts, or in none
            torch._foreach_copy_(self._kept, self._parameters)
            torch._foreach_add_(self._parameters, self._move)
            self._moved = True
        return x, y

    @torch.no_grad()
    def gradients(self, model: nn.Module) -> None:
        if self._moved:
            torch._foreach_copy_(self._parameters, self._kept)
            self._moved = False

    def finish(self, model: nn.Module) -> Outcome:
        return Outcome(state=self._global) if self.radius else Outcome()
