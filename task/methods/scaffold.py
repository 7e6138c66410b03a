"""SCAFFOLD: control variates correct each local gradient for client drift.

Loss: cross-entropy; each gradient g becomes g - c_i + c.
Paper: Karimireddy et al., "SCAFFOLD: Stochastic Controlled Averaging for Federated Learning", ICML
2020, Algorithm 1.
Hooks: ``start``, ``gradients``, ``finish``, ``server``. Client state: its control variate c_i, as
large as the model. Broadcast: c. Extra upload: the change of c_i, as large as the model.
Extra compute: two passes over the parameters per step.

Our choices:

* c_i becomes the mean of the uncorrected gradients of the round's steps. Under plain SGD this is
  the paper's option II, c_i - c + (x - y_i) / (K * lr), term by term. With momentum or weight
  decay it is still a mean of gradients, which option II is not.
* ``optim=adamw`` is refused. AdamW divides a gradient by the root of its second moment, so
  corrections that add up to 0 over the clients would not do so in the steps.
* c moves by each client's share in the federation's objective, so that it stays the mean of all c_i
  under the aggregation's weights. With equal weights that is the paper's 1/N.
* Control variates start at 0 and cover the trained parameters, not batch norm's statistics.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from task.methods.base import Contribution, LocalRound, Method, Outcome, ServerUpdate
from task.optim.parameters import gradients_of, trained_parameters, zeros
from task.tensors import Tensors


@torch.no_grad()
def correct_gradients(parameters: list[Tensor], seen: list[Tensor], drift: list[Tensor]) -> None:
    """Add each gradient to its sum in `seen`, then subtract `drift` from it, both in place.

    Args:
        parameters: the trained parameters, after the backward pass.
        seen: the sums of the round's uncorrected gradients so far.
        drift: c_i - c.
    """
    own = gradients_of(parameters)
    torch._foreach_add_(seen, own)
    torch._foreach_sub_(own, drift)


@dataclass
class Scaffold(Method):
    """Cross-entropy with gradients corrected by the control variates; no settings."""

    keeps_state: ClassVar = True
    needs_sgd: ClassVar = True
    separable: ClassVar = True
    multilabel: ClassVar = True

    def start(self, model: nn.Module, this: LocalRound) -> None:
        parameters = trained_parameters(model)
        self._parameters: list[Tensor] = list(parameters.values())
        self._seen = zeros(parameters)
        self._own: Tensors = this.state or zeros(parameters)
        common = this.broadcast or zeros(parameters)
        self._drift = [self._own[name] - common[name] for name in parameters]
        self._steps = 0

    def gradients(self, model: nn.Module) -> None:
        correct_gradients(self._parameters, list(self._seen.values()), self._drift)
        self._steps += 1

    def finish(self, model: nn.Module) -> Outcome:
        new = {name: total / self._steps for name, total in self._seen.items()}
        change = {name: value - self._own[name] for name, value in new.items()}
        return Outcome(state=new, extra=change)

    def server(self, weights: Tensors) -> ServerUpdate:
        return ControlVariate(weights)


class ControlVariate(ServerUpdate):
    """The server's control variate c, the weighted mean of the clients' c_i."""

    def __init__(self, weights: Tensors) -> None:
        self.state = zeros(weights)

    def broadcast(self) -> Tensors:
        return self.state

    def update(self, before: Tensors, after: Tensors, clients: Contribution) -> dict[str, Tensor]:
        for name, value in self.state.items():
            value.mul_(clients.known).add_(clients.extra[name], alpha=clients.share)
        return dict(after)
