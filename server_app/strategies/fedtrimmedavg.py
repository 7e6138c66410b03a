"""The mean of what is left without the extremes, number by number (Yin et al., ICML 2018)."""

from dataclasses import dataclass

from flwr.serverapp.strategy import FedTrimmedAvg, Strategy

from server_app.strategies.base import COMMON, StrategySettings
from task.errors import refuse


@dataclass
class FedTrimmedAvgSettings(StrategySettings):
    """The coordinate-wise trimmed mean; every client counts alike.

    Attributes:
        trimmed: the share of the clients left out at each end, rounded down.
    """

    trimmed: float

    def __post_init__(self) -> None:
        if not 0 <= self.trimmed < 0.5:
            refuse(self, "trimmed", "must be from 0 to below 0.5")

    def build(self, participants: int) -> Strategy:
        return FedTrimmedAvg(**COMMON, beta=self.trimmed)
