"""FedAvg: the weighted mean of the clients' models (McMahan et al., AISTATS 2017)."""

from dataclasses import dataclass

from flwr.serverapp.strategy import FedAvg, Strategy

from server_app.aggregation.strategies.base import COMMON_ARGUMENTS
from server_app.aggregation.strategies.families.weighted import WeightedSettings


@dataclass
class FedAvgSettings(WeightedSettings):
    """Settings of FedAvg."""

    def build(self, participants: int) -> Strategy:
        return FedAvg(**COMMON_ARGUMENTS)
