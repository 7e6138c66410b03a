"""FedExP: the server takes a longer step where the clients' updates disagree.

Loss: cross-entropy. The server's step is w + eta * D, where D is the mean of the updates D_i and
eta = max(1, mean of ||D_i||^2 / (2 * (||D||^2 + epsilon))).
Paper: Jhunjhunwala, Wang, Joshi, "FedExP: Speeding Up Federated Averaging via Extrapolation", ICLR
2023. We have not read it: the equation is from github.com/bytedance/FedDecorr (approach/fedexp.py)
and the authors' release, github.com/Divyansh03/FedExP.
Hooks: ``start``, ``finish``, ``server``. Client state: none.
Broadcast and extra upload: one number.

Where the authors' release differs from ours: epsilon is multiplied by the number of clients and
by 0.998^2 each round, and the mean of the last two global models is evaluated.

Our choices:

* The means use the aggregation's weights; with equal weights they are the paper's.
* Only trained parameters count and are extrapolated. A variance of batch norm that was
  extrapolated could be below 0.
* Strategies with momentum or adaptive steps are refused, since eta would multiply these too.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from task.errors import refuse
from task.methods.base import Contribution, LocalRound, Method, Outcome, ServerUpdate
from task.optim.parameters import snapshot
from task.tensors import Tensors

NORM = "squared norm of the update"


def squared_distance(one: Tensors, other: Tensors) -> Tensor:
    """Return the squared norm of the difference over the names of `other`, a float64 scalar."""
    parts = [(one[name].double() - value.double()).square().sum() for name, value in other.items()]
    return torch.stack(parts).sum()


@dataclass
class FedExP(Method):
    """Cross-entropy, with a server step that is extrapolated.

    Attributes:
        step_epsilon: epsilon, above 0; a larger one gives shorter steps.
    """

    scales_step: ClassVar = True
    separable: ClassVar = True
    replayable: ClassVar = True
    multilabel: ClassVar = True

    step_epsilon: float

    def __post_init__(self) -> None:
        if self.step_epsilon <= 0:
            refuse(self, "step_epsilon", "must be above 0")

    def start(self, model: nn.Module, this: LocalRound) -> None:
        self._global = snapshot(model)

    def finish(self, model: nn.Module) -> Outcome:
        norm = squared_distance(snapshot(model), self._global).float()
        return Outcome(extra={NORM: norm})

    def server(self, weights: Tensors) -> ServerUpdate:
        return ExtrapolatedStep(list(weights), self.step_epsilon)


class ExtrapolatedStep(ServerUpdate):
    """The server's step of length eta."""

    def __init__(self, names: list[str], epsilon: float) -> None:
        self.state = {NORM: torch.zeros(())}
        self._names, self._epsilon = names, epsilon

    def broadcast(self) -> Tensors:
        """Return the last mean of the squared norms, which no client reads."""
        return self.state

    def update(self, before: Tensors, after: Tensors, clients: Contribution) -> dict[str, Tensor]:
        start = {name: before[name] for name in self._names}
        mean = clients.extra[NORM]
        self.state[NORM].copy_(mean)
        shortened = squared_distance(clients.weights, start) + self._epsilon
        eta = float((mean / (2 * shortened)).clamp_min(1.0))
        longer = {name: torch.lerp(value, after[name], eta) for name, value in start.items()}
        return {**after, **longer}
