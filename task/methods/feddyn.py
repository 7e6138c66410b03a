"""FedDyn: a dynamic regulariser that aligns each client's optimum with the federation's.

Loss: cross-entropy - <h_i, w> + alpha / 2 * ||w - w_global||^2.
Paper: Acar et al., "Federated Learning Based on Dynamic Regularization", ICLR 2021, Algorithm 1.
Hooks: ``start``, ``gradients``, ``finish``, ``server``. Client state: its h_i, as large as the
model. Extra upload: none. Extra compute: one pass over the parameters per step.

Our choices:

* The server's h moves by each client's share in the federation's objective. So the fixed point is
  the optimum under the aggregation's weights. With equal weights the share is 1/m, as in the paper.
* h_i is the gradient of the client's loss at the optimum of the local objective, whichever
  optimizer finds it. Weight decay of ``optim=adamw`` is not a part of that objective; SGD's is.
* The server's last step moves the trained parameters; batch norm's statistics stay means.

Limitation: h is computed from the mean update. With ``strategy=fedadam``, ``fedyogi`` or
``fedadagrad`` the server's step can be smaller. A small alpha then misses the optimum.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from task.errors import refuse
from task.methods.base import Contribution, LocalRound, Method, Outcome, ServerUpdate
from task.optim.parameters import gradients_of, snapshot, trained_parameters, zeros
from task.tensors import Tensors


@torch.no_grad()
def add_dynamic_gradient(
    parameters: list[Tensor],
    anchor: list[Tensor],
    linear: list[Tensor],
    weight: float,
) -> None:
    """Add the gradient of ``-<h_i, w> + weight / 2 * ||w - anchor||^2``, in place.

    Args:
        parameters: w, after the backward pass.
        anchor: the global weights, in the same order and shapes.
        linear: h_i, likewise.
        weight: alpha, above 0.
    """
    own = gradients_of(parameters)
    torch._foreach_sub_(own, linear)
    torch._foreach_add_(own, torch._foreach_sub(parameters, anchor), alpha=weight)


@dataclass
class FedDyn(Method):
    """Cross-entropy + the dynamic regulariser (Algorithm 1).

    Attributes:
        dynamic_weight: the paper's alpha, at least 0; 0 gives FedAvg.
    """

    keeps_state: ClassVar = True
    separable: ClassVar = True
    replayable: ClassVar = True
    multilabel: ClassVar = True

    dynamic_weight: float

    def __post_init__(self) -> None:
        if self.dynamic_weight < 0:
            refuse(self, "dynamic_weight", "must be at least 0")

    def start(self, model: nn.Module, this: LocalRound) -> None:
        self._parameters: list[Tensor] = list(trained_parameters(model).values())
        self._global = snapshot(model)
        self._linear: Tensors = this.state or zeros(self._global)

    def gradients(self, model: nn.Module) -> None:
        if self.dynamic_weight:
            anchor = list(self._global.values())
            linear = [self._linear[name] for name in self._global]
            add_dynamic_gradient(self._parameters, anchor, linear, self.dynamic_weight)

    def finish(self, model: nn.Module) -> Outcome:
        if not self.dynamic_weight:
            return Outcome()
        moved = snapshot(model)
        linear = {
            name: value - self.dynamic_weight * (moved[name] - self._global[name])
            for name, value in self._linear.items()
        }
        return Outcome(state=linear)

    def server(self, weights: Tensors) -> ServerUpdate | None:
        return DynamicMean(weights, self.dynamic_weight) if self.dynamic_weight else None


class DynamicMean(ServerUpdate):
    """The server's h, the weighted mean of the clients' h_i; h / alpha is subtracted each round."""

    def __init__(self, weights: Tensors, dynamic_weight: float) -> None:
        self.state = zeros(weights)
        self._weight = dynamic_weight

    def update(self, before: Tensors, after: Tensors, clients: Contribution) -> dict[str, Tensor]:
        for name, value in self.state.items():
            moved: Tensor = clients.weights[name] - before[name]
            value.mul_(clients.known).sub_(moved, alpha=self._weight * clients.share)
        shifted = {name: after[name] - value / self._weight for name, value in self.state.items()}
        return {**after, **shifted}
