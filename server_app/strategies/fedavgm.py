"""The mean update as a gradient, with momentum on the server (Hsu et al., arXiv:1909.06335)."""

from dataclasses import dataclass
from typing import ClassVar

from flwr.serverapp.strategy import FedAvgM, Strategy

from server_app.strategies.base import COMMON
from server_app.strategies.families.weighted import WeightedSettings
from task.errors import refuse


@dataclass
class FedAvgMSettings(WeightedSettings):
    """Federated averaging with server momentum.

    Attributes:
        server_lr: the server's learning rate.
        server_momentum: of the mean update.
    """

    remembers: ClassVar = ("momentum_vector",)

    server_lr: float
    server_momentum: float

    def __post_init__(self) -> None:
        if self.server_lr <= 0:
            refuse(self, "server_lr", "must be above 0")
        if not 0 <= self.server_momentum < 1:
            refuse(self, "server_momentum", "must be from 0 to below 1")

    def build(self, participants: int) -> Strategy:
        return FedAvgM(
            **COMMON, server_learning_rate=self.server_lr, server_momentum=self.server_momentum
        )

    def ready(self, strategy: Strategy, updates: int) -> None:
        assert isinstance(strategy, FedAvgM)
        strategy.current_arrays = None  # its own copy; a method may have moved the weights since
