"""Adagrad on the server, with the mean update as its gradient (Reddi et al., ICLR 2021)."""

from dataclasses import dataclass

from flwr.serverapp.strategy import FedAdagrad, Strategy

from server_app.strategies.base import COMMON
from server_app.strategies.families.weighted import AdaptiveSettings


@dataclass
class FedAdagradSettings(AdaptiveSettings):
    """Adagrad over rounds."""

    def build(self, participants: int) -> Strategy:
        return FedAdagrad(**COMMON, eta=self.server_lr, tau=self.tau)
