"""A local method that fails for some clients in some rounds, the way real clients do."""

from dataclasses import dataclass

import torch
from torch import nn

from task.methods.base import LocalRound, Method, Outcome


@dataclass
class Faulty(Method):
    """Cross-entropy, but `clients` fail in `rounds`: they raise, or end with NaN for weights."""

    clients: list[int]
    rounds: list[int]
    fault: str

    def start(self, model: nn.Module, this: LocalRound) -> None:
        self.now = this.client in self.clients and this.round in self.rounds
        if self.now and self.fault == "raise":
            raise RuntimeError("scanner offline")

    def finish(self, model: nn.Module) -> Outcome:
        if self.now and self.fault == "nan":
            with torch.no_grad():
                next(model.parameters()).fill_(torch.nan)
        return Outcome()
