"""SCAFFOLD: control variates take each client's own drift out of its steps.

Paper: Karimireddy et al., "SCAFFOLD: Stochastic Controlled Averaging for Federated Learning", ICML
2020, Algorithm 1. Hooks: ``start``, ``gradients``, ``finish``, and a server half. State kept: the
client's control variate c_i. Extra upload: its change, as large as the model. Extra compute: two
passes over the parameters a step.

Where we decide:

* c_i becomes the mean of the gradients seen in the round's steps. Under plain SGD that is the
  paper's option II, c_i - c + (x - y_i) / (K * lr), term by term; it stays a mean of gradients
  under momentum and weight decay, where option II's division by K * lr does not.
* c moves by each client's share in the federation's objective (1/N if all weigh alike, as in the
  paper), so that it stays the mean of all c_i under the aggregation's own weights.
* Control variates start from 0 and follow the trained parameters, not batch norm's statistics.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from task.methods.base import (
    Contribution,
    LocalRound,
    Method,
    Outcome,
    ServerHalf,
    Tensors,
    gradients_of,
    trained_parameters,
    zeros,
)


@torch.no_grad()
def correct_gradients(parameters: list[Tensor], seen: list[Tensor], drift: list[Tensor]) -> None:
    """Add each gradient to the sum of those `seen`, then correct it by ``- c_i + c``.

    Args:
        parameters: after the backward pass.
        seen: the sums so far.
        drift: c_i - c.
    """
    own = gradients_of(parameters)
    torch._foreach_add_(seen, own)
    torch._foreach_sub_(own, drift)


@dataclass
class Scaffold(Method):
    """Cross-entropy, its gradients corrected by the control variates."""

    memory: ClassVar = True
    server_half: ClassVar = True

    def start(self, model: nn.Module, this: LocalRound) -> None:
        parameters = trained_parameters(model)
        self._parameters: list[Tensor] = list(parameters.values())
        self._seen = zeros(parameters)
        self._own: Tensors = this.memory or zeros(parameters)
        common = this.broadcast or zeros(parameters)
        self._drift = [self._own[name] - common[name] for name in parameters]
        self._steps = 0

    def gradients(self, model: nn.Module) -> None:
        correct_gradients(self._parameters, list(self._seen.values()), self._drift)
        self._steps += 1

    def finish(self, model: nn.Module) -> Outcome:
        new = {name: total / self._steps for name, total in self._seen.items()}
        change = {name: value - self._own[name] for name, value in new.items()}
        return Outcome(memory=new, extra=change)

    def server(self, weights: Tensors) -> ServerHalf:
        return ControlVariate(weights)


class ControlVariate(ServerHalf):
    """The server's control variate c, the mean of the clients'."""

    def __init__(self, weights: Tensors) -> None:
        self.state = zeros(weights)

    def broadcast(self) -> Tensors:
        return self.state

    def update(self, before: Tensors, after: Tensors, clients: Contribution) -> dict[str, Tensor]:
        for name, value in self.state.items():
            value.mul_(clients.known).add_(clients.extra[name], alpha=clients.share)
        return dict(after)
