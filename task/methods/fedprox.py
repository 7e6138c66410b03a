"""FedProx: stay near the global model.

Paper: Li et al., "Federated Optimization in Heterogeneous Networks", MLSys 2020, Eq. 2.
Hooks: ``start``, ``gradients``. State kept: none. Extra upload: none. Extra compute: one pass over
the parameters a step, and a second copy of them.

Where we decide: the term's gradient is added to the gradient, as weight decay's is; a momentum
buffer then holds the gradient of the whole objective, as it would by automatic differentiation.
Default 0.01 (UniVarFL, FedUV); FedAlign uses 1e-4.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from task.errors import refuse
from task.methods.base import LocalRound, Method, gradients_of, snapshot, trained_parameters


@torch.no_grad()
def add_proximal_gradient(parameters: list[Tensor], anchor: list[Tensor], weight: float) -> None:
    """Add the gradient of ``weight / 2 * sum (w - anchor)^2`` to that of the parameters."""
    moved = torch._foreach_sub(parameters, anchor)
    torch._foreach_add_(gradients_of(parameters), moved, alpha=weight)


@dataclass
class FedProx(Method):
    """Cross-entropy + mu / 2 * the squared distance to the global weights.

    Attributes:
        proximal_weight: mu; 0 is FedAvg.
    """

    proximal_weight: float

    def __post_init__(self) -> None:
        if self.proximal_weight < 0:
            refuse(self, "proximal_weight", "must be at least 0")

    def start(self, model: nn.Module, this: LocalRound) -> None:
        self._parameters: list[Tensor] = list(trained_parameters(model).values())
        self._global = list(snapshot(model).values())

    def gradients(self, model: nn.Module) -> None:
        if self.proximal_weight:
            add_proximal_gradient(self._parameters, self._global, self.proximal_weight)
