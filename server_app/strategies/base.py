"""What every aggregation strategy says of itself."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from flwr.serverapp.strategy import Strategy
from numpy.typing import NDArray

WEIGHT = "weight"

Wide = dict[str, NDArray[np.float64]]

# Who takes part is sampled before: with fraction_train=0 Flower's strategies note a round's weights
# and sample nobody.
COMMON: dict[str, Any] = {"fraction_train": 0.0, "weighted_by_key": WEIGHT}


@dataclass
class StrategySettings(ABC):
    """The settings of one strategy, and how to build it.

    Attributes:
        averages: whether it moves to a mean of the clients' models, which methods with a server
            half rely on.
        private: whether it is differentially private, so that nothing else in a model may tell of
            the data.
        statistics_alike: whether batch-norm statistics take the same way as the weights; if not,
            they are averaged.
    """

    averages: ClassVar[bool] = True
    private: ClassVar[bool] = False
    statistics_alike: ClassVar[bool] = True
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

    def check(self, participants: int) -> None:  # noqa: B027  (most serve any number)
        """Refuse settings that rounds of so many participants cannot serve.

        Raises:
            ConfigError: there are too few.
        """

    def prepare(self, weights: Wide) -> Wide:
        """One client's arrays, in float64 and its own, as Flower's strategy is to see them."""
        return weights

    def ready(self, strategy: Strategy, updates: int) -> None:  # noqa: B027  (most are)
        """Make Flower's strategy ready for a round in which so many updates were accepted."""
