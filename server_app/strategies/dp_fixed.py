"""Differential privacy with a fixed clipping norm (McMahan et al., ICLR 2018)."""

from dataclasses import dataclass
from typing import Any

from flwr.serverapp.strategy import (
    DifferentialPrivacyServerSideFixedClipping,
    FedAvg,
    Strategy,
)

from server_app.strategies.base import COMMON
from server_app.strategies.families.accounting import ACCOUNTANT, gaussian_epsilon
from server_app.strategies.families.private import NOT_ACCOUNTED, FixedNormSettings
from task.errors import refuse


@dataclass
class DpFixedSettings(FixedNormSettings):
    """DP with fixed clipping.

    Attributes:
        delta: for which epsilon is told.
    """

    delta: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.delta < 1:
            refuse(self, "delta", "must be above 0 and below 1")

    def check(self, participants: int, num_clients: int) -> None:
        if self.delta >= 1 / num_clients:
            refuse(self, "delta", f"must be below 1 / num_clients, here 1 / {num_clients}")

    def account(self, rounds: int) -> dict[str, Any]:
        """Every round counts for every client: who is sampled is no secret, and amplifies nothing.

        A round in which no update was accepted released nothing, and counts all the same.
        """
        if not self.noise_multiplier:
            return {"epsilon": NOT_ACCOUNTED, "why": "without noise it is infinite"}
        epsilon = gaussian_epsilon(self.noise_multiplier, rounds, self.delta)
        return {"epsilon": epsilon, "delta": self.delta, "accountant": ACCOUNTANT}

    def build(self, participants: int) -> Strategy:
        return DifferentialPrivacyServerSideFixedClipping(
            FedAvg(**COMMON), self.noise_multiplier, self.clipping_norm, participants
        )
