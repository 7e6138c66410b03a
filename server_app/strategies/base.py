"""What every aggregation strategy says of itself."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from flwr.serverapp.strategy import Strategy

WEIGHT = "weight"


@dataclass
class StrategySettings(ABC):
    """The settings of one strategy, and how to build it."""

    __pydantic_config__: ClassVar = {"extra": "forbid", "allow_inf_nan": False}

    @abstractmethod
    def build(self) -> Strategy:
        """Flower's strategy; it reads each client's weight from the metric `WEIGHT`."""

    @abstractmethod
    def weight(self, examples: int) -> float:
        """How much a client with so many training images counts; only ratios matter."""
