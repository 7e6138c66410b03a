"""Differential privacy whose clients clip their updates themselves (McMahan et al., ICLR 2018)."""

from dataclasses import dataclass
from typing import Any

from flwr.serverapp.strategy import (
    DifferentialPrivacyClientSideFixedClipping,
    FedAvg,
    Strategy,
)

from server_app.strategies.base import COMMON
from server_app.strategies.families.private import NOT_ACCOUNTED, PrivateSettings
from task.errors import refuse


@dataclass
class DpClientFixedSettings(PrivateSettings):
    """Each client shortens its update before it leaves; noise joins the mean on the server.

    The server never sees a longer update, and cannot see whether a client kept to it.

    Attributes:
        clipping_norm: the longest update, in the Euclidean norm over all that is sent.
    """

    clipping_norm: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.clipping_norm <= 0:
            refuse(self, "clipping_norm", "must be above 0")

    def most_norm(self) -> float:
        return self.clipping_norm

    def account(self, rounds: int) -> dict[str, Any]:
        return {"epsilon": NOT_ACCOUNTED, "why": "the server cannot see whether clients clip"}

    def build(self, participants: int) -> Strategy:
        return DifferentialPrivacyClientSideFixedClipping(
            FedAvg(**COMMON), self.noise_multiplier, self.clipping_norm, participants
        )
