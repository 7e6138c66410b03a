"""DP with client-side clipping at a fixed norm (McMahan et al., ICLR 2018)."""

from dataclasses import dataclass
from typing import Any

from flwr.serverapp.strategy import (
    DifferentialPrivacyClientSideFixedClipping,
    FedAvg,
    Strategy,
)

from server_app.aggregation.strategies.base import COMMON_ARGUMENTS
from server_app.aggregation.strategies.families.private import (
    NOT_ACCOUNTED,
    FixedNormSettings,
    NoisyStrategy,
)


class ClientClipping(NoisyStrategy, DifferentialPrivacyClientSideFixedClipping):
    """Flower's strategy with noise from the operating system."""


@dataclass
class DpClientFixedSettings(FixedNormSettings):
    """Settings of differential privacy with clipping on the clients and noise on the server.

    Each client clips its update before sending it. The server cannot check that it did.
    """

    def client_clipping_norm(self) -> float:
        return self.clipping_norm

    def account_privacy(self, rounds: int) -> dict[str, Any]:
        return {"epsilon": NOT_ACCOUNTED, "why": "the server cannot see whether clients clip"}

    def build(self, participants: int) -> Strategy:
        return ClientClipping(
            FedAvg(**COMMON_ARGUMENTS), self.noise_multiplier, self.clipping_norm, participants
        )
