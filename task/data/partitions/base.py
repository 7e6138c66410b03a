"""What every way of dividing a training set gives."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from task.errors import ConfigError

Positions = NDArray[np.int64]


class Division(NamedTuple):
    """Who holds what.

    Attributes:
        clients: for each client its positions, ascending; disjoint, and together all of them.
        note: what had to be done to reach it, for the record; empty when nothing had.
    """

    clients: list[Positions]
    note: str = ""


@dataclass
class Partition(ABC):
    """The settings of one way to divide a training set.

    Attributes:
        min_images: every client gets at least so many images, validation included.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid", "allow_inf_nan": False}

    min_images: int

    def __post_init__(self) -> None:
        if self.min_images < 1:
            raise ConfigError("min_images", self.min_images, "must be at least 1")

    @abstractmethod
    def divide(
        self, labels: NDArray[np.int64], num_clients: int, generator: np.random.Generator
    ) -> Division:
        """Divide the positions 0 .. len(labels) - 1 among the clients."""

    def check(self, images: int, num_clients: int) -> None:
        """Refuse more clients than the images can serve.

        Raises:
            ConfigError: some client would hold fewer than `min_images`.
        """
        most = images // self.min_images
        if num_clients > most:
            allowed = (
                f"{images} training images serve at most {most} clients of at least "
                f"{self.min_images} (partition.min_images)"
            )
            raise ConfigError("num_clients", num_clients, allowed)
