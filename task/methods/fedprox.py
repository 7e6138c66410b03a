"""FedProx: a proximal term that keeps local weights near the global weights.

Loss: cross-entropy + mu / 2 * ||w - w_global||^2.
Paper: Li et al., "Federated Optimization in Heterogeneous Networks", MLSys 2020, Eq. 2.
Hooks: ``start``, ``gradients``. Client state: none. Extra upload: none.
Extra compute: one pass over the parameters per step. Extra memory: one copy of the parameters.

Our choices:

* The gradient of the term is added to the parameters' gradients, as weight decay's is. A momentum
  buffer then holds the gradient of the whole loss, as with automatic differentiation.
* The default mu is 0.01, as in UniVarFL and FedUV; FedAlign uses 1e-4.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from task.errors import refuse
from task.methods.base import LocalRound, Method
from task.optim.parameters import gradients_of, snapshot, trained_parameters


@torch.no_grad()
def add_proximal_gradient(parameters: list[Tensor], anchor: list[Tensor], weight: float) -> None:
    """Add the gradient of ``weight / 2 * ||w - anchor||^2`` to the parameters' gradients, in place.

    Args:
        parameters: w, after the backward pass.
        anchor: the global weights, in the same order and shapes.
        weight: mu, at least 0.
    """
    moved = torch._foreach_sub(parameters, anchor)
    torch._foreach_add_(gradients_of(parameters), moved, alpha=weight)


@dataclass
class FedProx(Method):
    """Cross-entropy + mu / 2 * ||w - w_global||^2 (Eq. 2).

    Attributes:
        proximal_weight: mu, at least 0; 0 gives FedAvg.
    """

    separable: ClassVar = True
    replayable: ClassVar = True
    multilabel: ClassVar = True

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
