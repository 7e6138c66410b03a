"""FedAvgM: the mean update as a gradient with server momentum (Hsu et al., arXiv:1909.06335)."""

from dataclasses import dataclass
from typing import ClassVar

from flwr.serverapp.strategy import FedAvgM, Strategy

from server_app.aggregation.strategies.base import COMMON_ARGUMENTS
from server_app.aggregation.strategies.families.weighted import WeightedSettings
from task.errors import refuse


@dataclass
class FedAvgMSettings(WeightedSettings):
    """Settings of FedAvgM.

    Attributes:
        server_lr: the server's learning rate, above 0.
        server_momentum: the momentum of the mean update, in [0, 1).
    """

    state_attributes: ClassVar = ("momentum_vector",)

    server_lr: float
    server_momentum: float

    def __post_init__(self) -> None:
        if self.server_lr <= 0:
            refuse(self, "server_lr", "must be above 0")
        if not 0 <= self.server_momentum < 1:
            refuse(self, "server_momentum", "must be from 0 to below 1")

    def build(self, participants: int) -> Strategy:
        return FedAvgM(
            **COMMON_ARGUMENTS,
            server_learning_rate=self.server_lr,
            server_momentum=self.server_momentum,
        )

    def prepare_round(self, strategy: Strategy, updates: int) -> None:
        assert isinstance(strategy, FedAvgM)
        strategy.current_arrays = None  # drop its copy: a method may have changed the weights
