"""Differential privacy with a fixed clipping norm (McMahan et al., ICLR 2018)."""

from dataclasses import dataclass

from flwr.serverapp.strategy import (
    DifferentialPrivacyServerSideFixedClipping,
    FedAvg,
    Strategy,
)

from server_app.strategies.base import COMMON
from server_app.strategies.families.private import PrivateSettings
from task.errors import refuse


@dataclass
class DpFixedSettings(PrivateSettings):
    """DP with fixed clipping.

    Attributes:
        clipping_norm: the longest update, in the Euclidean norm over all trained parameters.
    """

    clipping_norm: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.clipping_norm <= 0:
            refuse(self, "clipping_norm", "must be above 0")

    def build(self, participants: int) -> Strategy:
        return DifferentialPrivacyServerSideFixedClipping(
            FedAvg(**COMMON), self.noise_multiplier, self.clipping_norm, participants
        )
