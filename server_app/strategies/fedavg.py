"""The weighted mean of the clients' models (McMahan et al., AISTATS 2017)."""

from dataclasses import dataclass

from flwr.serverapp.strategy import FedAvg, Strategy

from server_app.strategies.base import COMMON
from server_app.strategies.families.weighted import WeightedSettings


@dataclass
class FedAvgSettings(WeightedSettings):
    """Federated averaging."""

    def build(self, participants: int) -> Strategy:
        return FedAvg(**COMMON)
