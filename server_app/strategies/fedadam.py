"""Adam on the server, with the mean update as its gradient (Reddi et al., ICLR 2021)."""

from dataclasses import dataclass

from flwr.serverapp.strategy import FedAdam, Strategy

from server_app.strategies.base import COMMON, AdaptiveSettings
from task.errors import refuse


@dataclass
class FedAdamSettings(AdaptiveSettings):
    """Adam over rounds.

    Attributes:
        beta_1: decay of the first moment.
        beta_2: decay of the second moment.
    """

    beta_1: float
    beta_2: float

    def __post_init__(self) -> None:
        super().__post_init__()
        for field in ("beta_1", "beta_2"):
            if not 0 <= getattr(self, field) < 1:
                refuse(self, field, "must be from 0 to below 1")

    def build(self, participants: int) -> Strategy:
        return FedAdam(
            **COMMON, eta=self.server_lr, tau=self.tau, beta_1=self.beta_1, beta_2=self.beta_2
        )
