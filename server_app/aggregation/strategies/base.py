"""The base class of aggregation strategies."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from flwr.app import ArrayRecord
from flwr.serverapp.strategy import Strategy

from server_app.config.experiment import Experiment
from task.seeding import ByteSource

WEIGHT = "weight"

# Clients are sampled before the strategy is called. With fraction_train=0 a Flower strategy stores
# the round's weights in configure_train and samples no client.
COMMON_ARGUMENTS: dict[str, Any] = {"fraction_train": 0.0, "weighted_by_key": WEIGHT}


@dataclass
class StrategySettings(ABC):
    """The settings of one strategy; builds the Flower strategy.

    A subclass is a dataclass whose fields are the settings of its YAML file.

    Attributes:
        needs_each_update: whether it reads each client's update. If False, the weighted mean of
            the clients' models is enough, and a worker may send the sum of its clients.
        moves_to_mean: whether it moves the global model to a mean of the clients' models, which
            methods with a server update need.
        state_attributes: the attributes of the Flower strategy that carry over to the next round.
        buffered: whether it takes updates as they arrive (`BufferedSettings`).
        private: whether it is differentially private; nothing else in a model may then depend on
            the data, such as batch norm's statistics.
    """

    needs_each_update: ClassVar[bool] = True
    moves_to_mean: ClassVar[bool] = False
    buffered: ClassVar[bool] = False
    private: ClassVar[bool] = False
    state_attributes: ClassVar[tuple[str, ...]] = ()
    __pydantic_config__: ClassVar = {"extra": "forbid", "allow_inf_nan": False}

    @abstractmethod
    def build(self, participants: int) -> Strategy:
        """Return the Flower strategy; it reads each client's weight from the metric `WEIGHT`.

        Args:
            participants: the number of clients sampled per round.
        """

    def weight(self, examples: int) -> float:
        """Return the weight of a client with `examples` training images; only ratios matter."""
        return 1.0

    def weighs_alike(self) -> bool:
        """Return whether all clients have the same weight, whatever their number of images."""
        return self.weight(1) == self.weight(2)

    def min_updates(self) -> int:
        """Return the smallest number of accepted updates with which a round changes the model."""
        return 1

    def check_participants(self, participants: int, num_clients: int) -> None:  # noqa: B027  (most accept any number)
        """Check that the settings fit the number of clients.

        Args:
            participants: the number of clients sampled per round.
            num_clients: the number of all clients.

        Raises:
            ConfigError: a setting does not fit, such as too few participants.
        """

    def earlier_weights(self) -> int:
        """Return how many copies of earlier rounds' weights a round may need."""
        return 0

    def updates_together(self, participants: int) -> int:
        """Return how many updates one server step uses at most.

        Args:
            participants: the number of clients that train in a round, or at a time.
        """
        return participants

    def client_clipping_norm(self) -> float:
        """Return the L2 norm that each client clips its own update to; 0 for no clipping."""
        return 0.0

    def prepare_update(self, update: ArrayRecord) -> ArrayRecord:
        """Return one client's update as the Flower strategy needs it."""
        return update

    def privacy_spent(self, rounds: int) -> dict[str, Any]:
        """Return the privacy spent after `rounds` rounds, for the record; empty if not private."""
        return {}

    def prepare_round(self, strategy: Strategy, updates: int) -> None:  # noqa: B027  (most need none)
        """Prepare the Flower strategy for a round with `updates` accepted updates."""

    def set_noise_source(self, strategy: Strategy, random_bytes: ByteSource) -> None:  # noqa: B027
        """Give a private strategy the source of this round's noise; others need none."""


def strategy_of(experiment: Experiment) -> StrategySettings:
    """Return the aggregation strategy of an experiment."""
    found: StrategySettings = experiment.component("strategy")
    return found
