"""FedProx: stay near the global model.

Paper: Li et al., "Federated Optimization in Heterogeneous Networks", MLSys 2020, Eq. 2.
Hooks: ``start``, ``gradients``. State kept: none. Extra upload: none. Extra compute: one pass over
the parameters a step, and a second copy of them.

Where we decide: the term's gradient is added to the gradient, as weight decay's is; a momentum
buffer then holds the gradient of the whole objective, as it would by automatic differentiation.
Default 0.01 (UniVarFL, FedUV); FedAlign uses 1e-4.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from task.errors import refuse
from task.methods.base import LocalRound, Method, Tensors, gradient, snapshot, trained_parameters


@torch.no_grad()
def add_proximal_gradient(
    parameters: Mapping[str, nn.Parameter], anchor: Tensors, weight: float
) -> None:
    """Add the gradient of ``weight / 2 * sum (w - anchor)^2`` to that of the parameters."""
    for name, parameter in parameters.items():
        gradient(parameter).add_(parameter - anchor[name], alpha=weight)


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
        self._global: dict[str, Tensor] = snapshot(model)

    def gradients(self, model: nn.Module) -> None:
        if self.proximal_weight:
            add_proximal_gradient(trained_parameters(model), self._global, self.proximal_weight)
