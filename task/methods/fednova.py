"""FedNova: updates are divided by the length of the local steps before they are averaged.

Loss: cross-entropy. The server's step is w - t * sum_i p_i * d_i, with d_i = (w - w_i) / a_i and
t = sum_i p_i * a_i. a_i is how far the client's optimizer moves along a constant gradient of 1 at
a rate of 1; without momentum, it is the number of steps.
Paper: Wang et al., "Tackling the Objective Inconsistency Problem in Heterogeneous Federated
Optimization", NeurIPS 2020. Release: github.com/JYWa/FedNova.
Hooks: ``start``, ``gradients``, ``finish``, ``server``. Client state: none.
Broadcast and extra upload: one number. Extra compute: none.

Where the release differs from ours: with FedProx's term it uses another normaliser. With FedProx's
term and momentum together this is too large: 4.42 instead of 2.8 for two steps at a learning rate
of 0.1, momentum 0.9 and weight 1. Here ``method=fednova+fedprox`` uses a_i as above. The release's
optional server momentum is left out.

Our choices:

* A client sends the weights w - b * d_i instead of d_i beside w_i. b is broadcast: t of the last
  round, and 100 before the first. b cancels in the server's step, so it decides no result beyond
  rounding, and an update is as large as FedAvg's. Strategies with a memory, such as FedAvgM and
  FedAdam, would keep updates of an older b, and are refused.
* Batch norm's statistics are averaged as they are.
* With ``optim.keep_momentum`` the momentum of earlier rounds is not counted in a_i.
* ``optim=adamw`` is refused: its steps have the same length for every size of the gradient, and no
  a_i in this sense.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from task.methods.base import Contribution, LocalRound, Method, Outcome, ServerUpdate
from task.optim.parameters import snapshot, trained_parameters
from task.tensors import Tensors

LENGTH, FIRST_LENGTH = "length of the local steps", 100.0


class StepLength:
    """How far an optimizer moves along a constant gradient of 1 at a rate of 1.

    Attributes:
        total: after the steps so far.
    """

    def __init__(self, momentum: float, nesterov: bool) -> None:
        self.total = 0.0
        self._momentum, self._nesterov, self._buffer = momentum, nesterov, 0.0

    def step(self) -> None:
        """Take one step."""
        self._buffer = self._momentum * self._buffer + 1
        self.total += 1 + self._momentum * self._buffer if self._nesterov else self._buffer


@dataclass
class FedNova(Method):
    """Cross-entropy, with updates divided by the length of the local steps; no settings."""

    scales_update: ClassVar = True
    scales_step: ClassVar = True
    needs_sgd: ClassVar = True
    separable: ClassVar = True
    multilabel: ClassVar = True

    def start(self, model: nn.Module, this: LocalRound) -> None:
        self._global = snapshot(model)
        self._length = StepLength(this.momentum, this.nesterov)
        self._common = this.broadcast.get(LENGTH, torch.tensor(FIRST_LENGTH))

    def gradients(self, model: nn.Module) -> None:
        self._length.step()

    @torch.no_grad()
    def finish(self, model: nn.Module) -> Outcome:
        ratio = self._common.double() / self._length.total
        for name, parameter in trained_parameters(model).items():
            start = self._global[name].double()
            parameter.copy_(start + ratio * (parameter.double() - start))
        return Outcome(extra={LENGTH: torch.tensor(self._length.total)})

    def server(self, weights: Tensors) -> ServerUpdate:
        return NormalisedStep(list(weights))


class NormalisedStep(ServerUpdate):
    """The server's step by t times the mean direction."""

    def __init__(self, names: list[str]) -> None:
        self.state = {LENGTH: torch.tensor(FIRST_LENGTH)}
        self._names = names

    def broadcast(self) -> Tensors:
        return self.state

    def problem_with(self, extra: Tensors) -> str:
        return "" if extra[LENGTH] > 0 else f"its {LENGTH} is not above 0"

    def update(self, before: Tensors, after: Tensors, clients: Contribution) -> dict[str, Tensor]:
        length = clients.extra[LENGTH]
        if length <= 0:  # with masks, where no single client's is seen
            return dict(after)
        ratio = length / self.state[LENGTH].double()
        moved: dict[str, Tensor] = {}
        for name in self._names:
            start = before[name].double()
            step: Tensor = ratio * (after[name].double() - start)
            moved[name] = (start + step).to(before[name].dtype)
        self.state[LENGTH].copy_(length)
        return {**after, **moved}
