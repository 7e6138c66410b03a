"""Strategies that are robust against malicious clients."""

from dataclasses import dataclass
from typing import ClassVar

from server_app.aggregation.strategies.base import StrategySettings
from task.errors import refuse


@dataclass
class RobustSettings(StrategySettings):
    """Settings of a strategy that tolerates f malicious clients; all clients have equal weight.

    Distances between models include the batch-norm statistics: a client's weights and statistics
    are either both trusted or both ignored.

    Attributes:
        num_malicious: f, the number of malicious participants per round, at least 0.
        participants_needed: (a, b); a round needs at least a * f + b participants.
    """

    participants_needed: ClassVar[tuple[int, int]]

    num_malicious: int

    def __post_init__(self) -> None:
        if self.num_malicious < 0:
            refuse(self, "num_malicious", "must be at least 0")

    def min_updates(self) -> int:
        times, plus = self.participants_needed
        return times * self.num_malicious + plus

    def check_participants(self, participants: int, num_clients: int) -> None:
        if participants < self.min_updates():
            times, plus = self.participants_needed
            refuse(
                self,
                "num_malicious",
                f"needs {times} * num_malicious + {plus} = {self.min_updates()} participants per "
                f"round, but there are {participants}; lower it, or raise num_clients or rho",
            )
