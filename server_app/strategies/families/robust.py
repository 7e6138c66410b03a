"""Strategies that bear clients that send anything."""

from dataclasses import dataclass
from typing import ClassVar

from server_app.strategies.base import StrategySettings
from task.errors import refuse


@dataclass
class RobustSettings(StrategySettings):
    """A strategy that bears some clients that send anything; every client counts alike.

    Distances are over weights and batch-norm statistics alike: a client is trusted with both or
    with neither.

    Attributes:
        num_malicious: f, how many of a round's participants it bears.
        participants_needed: by f: so many at least.
    """

    participants_needed: ClassVar[tuple[int, int]]

    num_malicious: int

    def __post_init__(self) -> None:
        if self.num_malicious < 0:
            refuse(self, "num_malicious", "must be at least 0")

    def least_updates(self) -> int:
        times, plus = self.participants_needed
        return times * self.num_malicious + plus

    def check(self, participants: int, num_clients: int) -> None:
        if participants < self.least_updates():
            times, plus = self.participants_needed
            refuse(
                self,
                "num_malicious",
                f"needs {times} * num_malicious + {plus} = {self.least_updates()} participants a "
                f"round, and there are {participants}; lower it, or raise num_clients or rho",
            )
