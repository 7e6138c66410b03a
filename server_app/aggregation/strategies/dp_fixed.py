"""DP with server-side clipping at a fixed norm (McMahan et al., ICLR 2018)."""

import math
from dataclasses import dataclass
from typing import Any

from flwr.serverapp.strategy import (
    DifferentialPrivacyServerSideFixedClipping,
    FedAvg,
    Strategy,
)

from server_app.aggregation.strategies.base import COMMON_ARGUMENTS
from server_app.aggregation.strategies.families.private import (
    NOT_ACCOUNTED,
    FixedNormSettings,
    NoisyStrategy,
)
from task.errors import refuse
from task.privacy.settings import LARGEST

ACCOUNTANT = "dp-accounting, exact for Gaussian noise without amplification by sampling"


class ServerClipping(NoisyStrategy, DifferentialPrivacyServerSideFixedClipping):
    """Flower's strategy with noise from the operating system."""


@dataclass
class DpFixedSettings(FixedNormSettings):
    """Settings of differential privacy with fixed clipping on the server.

    Attributes:
        delta: the delta of the reported epsilon, above 0, at most 0.001 and below 1 / num_clients.
    """

    delta: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.delta <= LARGEST:
            refuse(self, "delta", f"must be above 0 and at most {LARGEST:g}")

    def check_participants(self, participants: int, num_clients: int) -> None:
        if self.delta >= 1 / num_clients:
            refuse(self, "delta", f"must be below 1 / num_clients, here 1 / {num_clients}")

    def account_privacy(self, rounds: int) -> dict[str, Any]:
        """Return epsilon, delta and the accountant.

        Every round counts for every client, since the sample of clients is not secret and gives no
        amplification. A round without accepted updates releases nothing, but is counted too.
        """
        if not self.noise_multiplier:
            return {"epsilon": NOT_ACCOUNTED, "why": "without noise, epsilon is infinite"}
        epsilon = gaussian_epsilon(self.noise_multiplier, rounds, self.delta)
        return {"epsilon": epsilon, "delta": self.delta, "accountant": ACCOUNTANT}

    def build(self, participants: int) -> Strategy:
        return ServerClipping(
            FedAvg(**COMMON_ARGUMENTS), self.noise_multiplier, self.clipping_norm, participants
        )


def gaussian_epsilon(noise_multiplier: float, rounds: int, delta: float) -> float:
    """Return the exact epsilon of `rounds` rounds of Gaussian noise at a given delta.

    n releases cost as much as one release with noise smaller by a factor sqrt(n). Balle and Wang,
    "Improving the Gaussian Mechanism for Differential Privacy", ICML 2018, Theorem 8, give its
    epsilon exactly. The bound of Flower's `RdpAccountant` is up to 15 % higher.

    Args:
        noise_multiplier: the noise's standard deviation divided by the sensitivity, above 0.
        rounds: the number of releases, at least 1.
        delta: in (0, 1).
    """
    # Imported here because it takes seconds, and few runs use noise.
    from dp_accounting import get_epsilon_gaussian  # noqa: PLC0415

    return float(get_epsilon_gaussian(noise_multiplier / math.sqrt(rounds), delta))
