"""FedDyn: a regulariser that moves each client's optimum to the federation's.

Paper: Acar et al., "Federated Learning Based on Dynamic Regularization", ICLR 2021, Algorithm 1.
Hooks: ``start``, ``gradients``, ``finish``, and a server half. State kept: the client's h_i, as
large as the model. Extra upload: none. Extra compute: one pass over the parameters a step.

Where we decide: the server's h moves by each client's share in the federation's objective (1/m if
all weigh alike, as in the paper), so that the fixed point is the optimum of what the aggregation
weighs. The server's last step moves the trained parameters; batch norm's statistics stay means.
With an adaptive aggregation, whose steps may be small, h counts movement that the server did not
make, and a small alpha does not bring the model to the optimum.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from task.errors import refuse
from task.methods.base import (
    Contribution,
    LocalRound,
    Method,
    Outcome,
    ServerHalf,
    Tensors,
    gradients_of,
    snapshot,
    trained_parameters,
    zeros,
)


@torch.no_grad()
def add_dynamic_gradient(
    parameters: list[Tensor],
    anchor: list[Tensor],
    linear: list[Tensor],
    weight: float,
) -> None:
    """Add the gradient of ``-<h_i, w> + weight / 2 * |w - anchor|^2``; `linear` is h_i."""
    own = gradients_of(parameters)
    torch._foreach_sub_(own, linear)
    torch._foreach_add_(own, torch._foreach_sub(parameters, anchor), alpha=weight)


@dataclass
class FedDyn(Method):
    """Cross-entropy + the dynamic regulariser.

    Attributes:
        dynamic_weight: the paper's alpha; 0 is FedAvg.
    """

    memory: ClassVar = True
    server_half: ClassVar = True

    dynamic_weight: float

    def __post_init__(self) -> None:
        if self.dynamic_weight < 0:
            refuse(self, "dynamic_weight", "must be at least 0")

    def start(self, model: nn.Module, this: LocalRound) -> None:
        self._parameters: list[Tensor] = list(trained_parameters(model).values())
        self._global = snapshot(model)
        self._linear: Tensors = this.memory or zeros(self._global)

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
        return Outcome(memory=linear)

    def server(self, weights: Tensors) -> ServerHalf | None:
        return DynamicMean(weights, self.dynamic_weight) if self.dynamic_weight else None


class DynamicMean(ServerHalf):
    """The server's h, the mean of the clients' h_i, taken off the aggregated weights."""

    def __init__(self, weights: Tensors, dynamic_weight: float) -> None:
        self.state = zeros(weights)
        self._weight = dynamic_weight

    def update(self, before: Tensors, after: Tensors, clients: Contribution) -> dict[str, Tensor]:
        for name, value in self.state.items():
            moved: Tensor = clients.weights[name] - before[name]
            value.mul_(clients.known).sub_(moved, alpha=self._weight * clients.share)
        shifted = {name: after[name] - value / self._weight for name, value in self.state.items()}
        return {**after, **shifted}
