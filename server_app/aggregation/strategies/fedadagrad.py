"""FedAdagrad: Adagrad on the server, the mean update as gradient (Reddi et al., ICLR 2021)."""

from dataclasses import dataclass

from flwr.serverapp.strategy import FedAdagrad, Strategy

from server_app.aggregation.strategies.base import COMMON_ARGUMENTS
from server_app.aggregation.strategies.families.weighted import AdaptiveSettings


@dataclass
class FedAdagradSettings(AdaptiveSettings):
    """Settings of FedAdagrad."""

    def build(self, participants: int) -> Strategy:
        return FedAdagrad(**COMMON_ARGUMENTS, eta=self.server_lr, tau=self.tau)
