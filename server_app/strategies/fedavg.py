"""The weighted mean of the clients' models (McMahan et al., AISTATS 2017)."""

from dataclasses import dataclass
from typing import Literal

from flwr.serverapp.strategy import FedAvg, Strategy

from server_app.strategies.base import WEIGHT, StrategySettings


@dataclass
class FedAvgSettings(StrategySettings):
    """Federated averaging.

    Attributes:
        weighting: ``examples`` weighs client k by n_k/N (UniVarFL, section 6), ``uniform`` by 1/K
            (its Algorithm 1).
    """

    weighting: Literal["examples", "uniform"]

    def build(self) -> Strategy:
        return FedAvg(weighted_by_key=WEIGHT)

    def weight(self, examples: int) -> float:
        return float(examples) if self.weighting == "examples" else 1.0
