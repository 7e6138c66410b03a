"""Strategies that take updates as they arrive, so that no client waits for another."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from flwr.serverapp.strategy import FedAvg, Strategy

from server_app.aggregation.strategies.base import COMMON_ARGUMENTS
from server_app.aggregation.strategies.families.weighted import WeightedSettings
from task.errors import refuse


@dataclass
class BufferedSettings(WeightedSettings):
    """Settings of a strategy whose server step uses the first `buffer_size` updates that arrive.

    As many clients train at a time as a round has participants (rho). A client starts from the
    global weights of that moment. When its update has arrived, another client starts. A client
    whose update is in the buffer starts again after the server step.

    Attributes:
        buffer_size: updates of one server step, which is one round.
        max_staleness: the largest number of server steps that an update may be behind; later ones
            are dropped. null for any.
    """

    buffered: ClassVar = True

    buffer_size: int
    max_staleness: int | None

    def __post_init__(self) -> None:
        if self.buffer_size < 1:
            refuse(self, "buffer_size", "must be at least 1")
        if self.max_staleness is not None and self.max_staleness < 0:
            refuse(self, "max_staleness", "must be at least 0, or null for any")

    @abstractmethod
    def step(self, staleness: int) -> float:
        """Return the factor of an update that is so many server steps behind."""

    def earlier_weights(self) -> int:
        return 2 * self.buffer_size  # those that each update started from, and as they are sent

    def updates_together(self, participants: int) -> int:
        return self.buffer_size

    def build(self, participants: int) -> Strategy:
        return FedAvg(**COMMON_ARGUMENTS)

    def check_participants(self, participants: int, num_clients: int) -> None:
        if self.buffer_size > num_clients:
            allowed = f"must be at most num_clients, here {num_clients}: a client counts once"
            refuse(self, "buffer_size", allowed)
