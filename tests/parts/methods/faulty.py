"""A local method that fails for some clients in some rounds."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from task.methods.base import LocalRound, Method, Outcome
from task.optim.parameters import snapshot, trained_parameters

Poison = Callable[[Tensor, Tensor, torch.Generator], Tensor]

POISONS: dict[str, Poison] = {
    "nan": lambda trained, start, _: torch.full_like(trained, torch.nan),
    "scale": lambda trained, start, _: start + 100 * (trained - start),
    "flip": lambda trained, start, _: -trained,
    "random": lambda trained, start, draw: torch.randn(trained.shape, generator=draw),
}


@dataclass
class Faulty(Method):
    """Cross-entropy, except for some clients in some rounds.

    Attributes:
        clients: the clients that fail.
        rounds: the rounds in which they fail.
        fault: ``raise`` for an exception, or the name of the `POISONS` that they send.
    """

    clients: list[int]
    rounds: list[int]
    fault: str

    def start(self, model: nn.Module, this: LocalRound) -> None:
        self.now = this.client in self.clients and this.round in self.rounds
        if self.now and self.fault == "raise":
            raise RuntimeError("scanner offline")
        self.generator, self.begun = this.generator, snapshot(model)

    def finish(self, model: nn.Module) -> Outcome:
        if self.now:
            with torch.no_grad():
                for name, value in trained_parameters(model).items():
                    begun = self.begun[name]
                    value.copy_(POISONS[self.fault](value, begun, self.generator))
        return Outcome()
