"""Differential privacy whose clients clip their updates themselves (McMahan et al., ICLR 2018)."""

from dataclasses import dataclass
from typing import Any

from flwr.serverapp.strategy import (
    DifferentialPrivacyClientSideFixedClipping,
    FedAvg,
    Strategy,
)

from server_app.strategies.base import COMMON
from server_app.strategies.families.private import NOT_ACCOUNTED, FixedNormSettings


@dataclass
class DpClientFixedSettings(FixedNormSettings):
    """Each client shortens its update before it leaves; noise joins the mean on the server.

    The server never sees a longer update, and cannot see whether a client kept to it.
    """

    def most_norm(self) -> float:
        return self.clipping_norm

    def account(self, rounds: int) -> dict[str, Any]:
        return {"epsilon": NOT_ACCOUNTED, "why": "the server cannot see whether clients clip"}

    def build(self, participants: int) -> Strategy:
        return DifferentialPrivacyClientSideFixedClipping(
            FedAvg(**COMMON), self.noise_multiplier, self.clipping_norm, participants
        )
