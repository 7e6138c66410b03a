"""FedTrimmedAvg: the coordinate-wise trimmed mean of the models (Yin et al., ICML 2018)."""

import math
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from flwr.serverapp.strategy import FedTrimmedAvg, Strategy

from server_app.aggregation.strategies.base import COMMON_ARGUMENTS, StrategySettings
from server_app.aggregation.strategies.families.blocks import BlockwiseStrategy, Values
from task.errors import refuse


class BlockwiseTrimmedMean(BlockwiseStrategy, FedTrimmedAvg):
    """Flower's FedTrimmedAvg with less memory."""

    def combine(self, values: Values) -> Values:
        """Return the mean without the smallest and the largest values."""
        trimmed = math.floor(Decimal(str(self.beta)) * len(values))
        stop = len(values) - trimmed
        ordered = np.partition(values, (trimmed, stop - 1), axis=0)
        mean: Values = ordered[trimmed:stop].mean(axis=0)
        return mean


@dataclass
class FedTrimmedAvgSettings(StrategySettings):
    """Settings of FedTrimmedAvg; all clients have equal weight.

    Methods with a server update (SCAFFOLD, FedDyn) are refused: it would use the untrimmed mean,
    which one hostile client can move anywhere.

    Attributes:
        trimmed: the share of clients removed at each end, in [0, 0.5); their number is rounded
            down.
    """

    trimmed: float

    def __post_init__(self) -> None:
        if not 0 <= self.trimmed < 0.5:
            refuse(self, "trimmed", "must be from 0 to below 0.5")

    def min_updates(self) -> int:
        return 1 if not self.trimmed else math.ceil(1 / self.trimmed)

    def check_participants(self, participants: int, num_clients: int) -> None:
        if participants < self.min_updates():
            refuse(
                self,
                "trimmed",
                f"trims no client of {participants} participants per round; must be 0 or at least "
                f"{1 / participants:g}",
            )

    def build(self, participants: int) -> Strategy:
        return BlockwiseTrimmedMean(**COMMON_ARGUMENTS, beta=self.trimmed)
