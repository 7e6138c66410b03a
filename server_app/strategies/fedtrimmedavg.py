"""The mean of what is left without the extremes, number by number (Yin et al., ICML 2018)."""

import math
from dataclasses import dataclass
from typing import ClassVar

from flwr.serverapp.strategy import FedTrimmedAvg, Strategy

from server_app.strategies.base import COMMON, StrategySettings
from task.errors import refuse


@dataclass
class FedTrimmedAvgSettings(StrategySettings):
    """The coordinate-wise trimmed mean; every client counts alike.

    A method's server half (SCAFFOLD, FedDyn) goes on from the plain mean of its clients.

    Attributes:
        trimmed: the share of the clients left out at each end, rounded down.
    """

    averages: ClassVar = True

    trimmed: float

    def __post_init__(self) -> None:
        if not 0 <= self.trimmed < 0.5:
            refuse(self, "trimmed", "must be from 0 to below 0.5")

    def least_updates(self) -> int:
        return 1 if not self.trimmed else math.ceil(1 / self.trimmed)

    def check(self, participants: int, num_clients: int) -> None:
        if participants < self.least_updates():
            refuse(
                self,
                "trimmed",
                f"leaves nobody out of {participants} participants a round; must be 0 or at least "
                f"{1 / participants:g}",
            )

    def build(self, participants: int) -> Strategy:
        return FedTrimmedAvg(**COMMON, beta=self.trimmed)
