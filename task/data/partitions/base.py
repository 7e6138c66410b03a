"""The interface of all partitioners, and a base for those that guarantee a minimum size."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import ClassVar, NamedTuple

import numpy as np

from task.data.dataset import Positions
from task.errors import ConfigError


class TrainingPool(NamedTuple):
    """The training images to be partitioned.

    Attributes:
        labels: [N] int64.
        domain_of: [N] int64, an index into `domains`.
        domains: the names of the domains.
    """

    labels: Positions
    domain_of: Positions
    domains: Sequence[str]


class PartitionResult(NamedTuple):
    """The images of every client.

    Attributes:
        clients: each client's positions in the pool, ascending. They are disjoint. Together they
            are all positions, except those that the note says are left out.
        note: a message for the record, if images were left out, or moved between clients;
            otherwise empty.
    """

    clients: list[Positions]
    note: str = ""


@dataclass
class Partitioner(ABC):
    """The settings of one way to partition training images among clients.

    Attributes:
        sites: the names of the sites that bring their own data; empty if data are partitioned here.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid", "allow_inf_nan": False}

    @property
    def sites(self) -> Sequence[str]:
        return ()

    @abstractmethod
    def partition(
        self, pool: TrainingPool, num_clients: int, generator: np.random.Generator
    ) -> PartitionResult:
        """Assign the positions 0 .. N - 1 of the pool to clients.

        Raises:
            ConfigError: the pool has too few images, classes or domains for so many clients.
        """


def check_domains(pool: TrainingPool, partition: str) -> None:
    """Check that a data set has domains.

    Args:
        pool: its training images.
        partition: the name of the partition that needs them.

    Raises:
        ConfigError: it has none.
    """
    if len(pool.domains) < 2:
        where = (
            "data=folder has domains as <domain>/<class>/*, data=table in the column domain, and "
            "data=hub in the column data.domain"
        )
        raise ConfigError("partition", partition, f"the data set has no domains; {where}")


@dataclass
class MinimumSizePartitioner(Partitioner):
    """A partitioner that gives every client a minimum number of images.

    Attributes:
        min_images: each client's minimum, including its validation images.
    """

    min_images: int

    def __post_init__(self) -> None:
        if self.min_images < 3:
            allowed = "must be at least 3: two images to train on and one for validation"
            raise ConfigError("min_images", self.min_images, allowed)

    def check_num_clients(self, num_clients: int, images: int) -> None:
        """Check that `images` are enough for every client's minimum.

        Raises:
            ConfigError: they are not.
        """
        if not images:
            raise ConfigError("num_clients", num_clients, "there are no images to train on")
        most = images // self.min_images
        if num_clients > most:
            allowed = (
                f"{images} training images are enough for at most {most} clients with "
                f"{self.min_images} images each; lower num_clients or partition.min_images"
            )
            raise ConfigError("num_clients", num_clients, allowed)

    def with_minimum_size(self, parts: list[Positions], remark: str) -> PartitionResult:
        """Return the parts, after images were moved to those below the minimum.

        Args:
            parts: each client's positions.
            remark: ends the note, if images were moved.
        """
        moved = fill_smallest(parts, self.min_images)
        note = f"{moved} images moved to clients below {self.min_images} {remark}" if moved else ""
        return PartitionResult([np.sort(part) for part in parts], note)


def fill_smallest(parts: list[Positions], minimum: int) -> int:
    """Move images from the largest part to the smallest, in place, until all reach the minimum.

    Of equally large parts the first is taken.

    Returns:
        How many images were moved.
    """
    sizes = [len(part) for part in parts]
    low = [(size, part) for part, size in enumerate(sizes)]
    high = [(-size, part) for part, size in enumerate(sizes)]
    heapify(low)
    heapify(high)
    moved = 0
    while True:
        while sizes[low[0][1]] != low[0][0]:  # an earlier size of this part
            heappop(low)
        while sizes[high[0][1]] != -high[0][0]:
            heappop(high)
        (least, smallest), (_, largest) = low[0], high[0]
        if least >= minimum:
            return moved
        count = min(minimum - least, (sizes[largest] - least) // 2)
        parts[smallest] = np.concatenate([parts[smallest], parts[largest][-count:]])
        parts[largest] = parts[largest][:-count]
        sizes[smallest] += count
        sizes[largest] -= count
        for part in (smallest, largest):
            heappush(low, (sizes[part], part))
            heappush(high, (-sizes[part], part))
        moved += count
