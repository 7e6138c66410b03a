"""What every way of dividing a training set gives."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from task.data.dataset import Positions
from task.errors import ConfigError


class Pool(NamedTuple):
    """The training images to be divided.

    Attributes:
        labels: [N] int64.
        domain_of: [N] int64, an index into `domains`.
        domains: the names of the domains.
    """

    labels: Positions
    domain_of: Positions
    domains: Sequence[str]


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
        sites: the names of the machines that bring their own data; empty where it is divided here.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid", "allow_inf_nan": False}

    @property
    def sites(self) -> Sequence[str]:
        return ()

    @abstractmethod
    def divide(self, pool: Pool, num_clients: int, generator: np.random.Generator) -> Division:
        """Divide the positions 0 .. N - 1 among the clients.

        Raises:
            ConfigError: the pool cannot serve so many clients.
        """


@dataclass
class Divided(Partition):
    """A partition that gives every client a least number of images.

    Attributes:
        min_images: every client gets at least so many images, validation included.
    """

    min_images: int

    def __post_init__(self) -> None:
        if self.min_images < 3:
            allowed = "must be at least 3: two images to train on and one for validation"
            raise ConfigError("min_images", self.min_images, allowed)

    def check(self, images: int, num_clients: int) -> None:
        """Refuse more clients than the images can serve.

        Raises:
            ConfigError: some client would hold fewer than `min_images`.
        """
        most = images // self.min_images
        if not images:
            raise ConfigError("num_clients", num_clients, "there are no images to train on")
        if num_clients > most:
            allowed = (
                f"{images} training images serve at most {most} clients of at least "
                f"{self.min_images} (partition.min_images)"
            )
            raise ConfigError("num_clients", num_clients, allowed)

    def repaired(self, parts: list[Positions], because: str) -> Division:
        """The division, with its smallest clients filled up from its largest where they must be."""
        moved = fill_up(parts, self.min_images)
        note = f"{moved} images moved to clients below {self.min_images} {because}" if moved else ""
        return Division([np.sort(part) for part in parts], note)


def fill_up(parts: list[Positions], least: int) -> int:
    """Move images from the largest part to the smallest, in place, until none holds too few.

    Returns:
        How many images were moved.
    """
    sizes = np.array([len(part) for part in parts])
    moved = 0
    while sizes.min() < least:
        poor, rich = int(sizes.argmin()), int(sizes.argmax())
        count = int(min(least - sizes[poor], (sizes[rich] - sizes[poor]) // 2))
        parts[poor] = np.concatenate([parts[poor], parts[rich][-count:]])
        parts[rich] = parts[rich][:-count]
        sizes[[poor, rich]] += count, -count
        moved += count
    return moved
