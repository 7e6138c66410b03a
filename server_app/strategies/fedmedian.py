"""The median of the clients' models, number by number (Yin et al., ICML 2018)."""

from dataclasses import dataclass

from flwr.serverapp.strategy import FedMedian, Strategy

from server_app.strategies.base import COMMON, StrategySettings


@dataclass
class FedMedianSettings(StrategySettings):
    """The coordinate-wise median; every client counts alike."""

    def build(self, participants: int) -> Strategy:
        return FedMedian(**COMMON)
