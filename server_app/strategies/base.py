"""What every aggregation strategy says of itself."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from flwr.app import ArrayRecord
from flwr.serverapp.strategy import Strategy

WEIGHT = "weight"

# Who takes part is sampled before: with fraction_train=0 Flower's strategies note a round's weights
# and sample nobody.
COMMON: dict[str, Any] = {"fraction_train": 0.0, "weighted_by_key": WEIGHT}


@dataclass
class StrategySettings(ABC):
    """The settings of one strategy, and how to build it.

    Attributes:
        linear: whether all it needs of the clients is their weighted mean, so that workers may add
            up; if not, it is shown each client's distance from the global weights.
        averages: whether it moves to a mean of the clients' models, which methods with a server
            half rely on.
        remembers: the attributes of Flower's strategy that a round leaves for the next.
        private: whether it is differentially private, so that nothing else in a model may tell of
            the data.
    """

    linear: ClassVar[bool] = False
    averages: ClassVar[bool] = False
    private: ClassVar[bool] = False
    remembers: ClassVar[tuple[str, ...]] = ()
    __pydantic_config__: ClassVar = {"extra": "forbid", "allow_inf_nan": False}

    @abstractmethod
    def build(self, participants: int) -> Strategy:
        """Flower's strategy for rounds of so many participants.

        It reads each client's weight from the metric `WEIGHT`.
        """

    def weight(self, examples: int) -> float:
        """How much a client with so many training images counts; only ratios matter."""
        return 1.0

    def least_updates(self) -> int:
        """The number of accepted clients below which a round changes nothing."""
        return 1

    def check(self, participants: int, num_clients: int) -> None:  # noqa: B027  (most serve any number)
        """Refuse settings that rounds of so many participants, of all clients, cannot serve.

        Raises:
            ConfigError: there are too few.
        """

    def most_norm(self) -> float:
        """How long a client's update may be, where the client itself sees to that; 0 for any."""
        return 0.0

    def prepare(self, moved: ArrayRecord) -> ArrayRecord:
        """How far one client moved, as Flower's strategy is to see it."""
        return moved

    def spent(self, rounds: int) -> dict[str, Any]:
        """What so many rounds have cost in privacy, for the record; nothing if none is promised."""
        return {}

    def ready(self, strategy: Strategy, updates: int) -> None:  # noqa: B027  (most are)
        """Make Flower's strategy ready for a round in which so many updates were accepted."""
