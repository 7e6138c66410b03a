"""FedMedian: the coordinate-wise median of the clients' models (Yin et al., ICML 2018)."""

from dataclasses import dataclass

from flwr.serverapp.strategy import FedMedian, Strategy

from server_app.aggregation.strategies.base import COMMON_ARGUMENTS, StrategySettings


@dataclass
class FedMedianSettings(StrategySettings):
    """Settings of FedMedian; all clients have equal weight."""

    def build(self, participants: int) -> Strategy:
        return FedMedian(**COMMON_ARGUMENTS)
