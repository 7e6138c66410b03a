"""Groups that the data set has: each client is a writer, a device, a hospital.

A group is a domain of the data set: with data=folder a directory <domain>/<class>/*, with
data=table a value of the column domain, with data=hub one of the column data.domain. The LEAF
benchmark splits its data sets in this way (S. Caldas et al., "LEAF: A Benchmark for Federated
Settings", 2018).

With `size_alpha`, there can be more clients than groups. A group with more images is then divided
among more clients.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from task.data.dataset import Positions
from task.data.partitions.base import (
    MinimumSizePartitioner,
    PartitionResult,
    TrainingPool,
    check_domains,
)
from task.errors import ConfigError, refuse


@dataclass
class NaturalPartitioner(MinimumSizePartitioner):
    """Give each client one group of the data set, or a part of one.

    Groups with fewer than `min_images` images are left out. With fewer clients than groups, the
    groups are drawn at random. Clients follow the order of the groups.

    Attributes:
        size_alpha: concentration of the Dirichlet distribution of the sizes of a group's clients,
            if there are more clients than groups: near 0 a few clients hold most of a group, large
            values give even sizes. Null refuses more clients than groups.
    """

    size_alpha: float | None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size_alpha is not None and not 0.001 <= self.size_alpha <= 1e6:
            refuse(self, "size_alpha", "must be from 0.001 to 1000000, or null")

    def partition(
        self, pool: TrainingPool, num_clients: int, generator: np.random.Generator
    ) -> PartitionResult:
        check_domains(pool, "natural")
        groups = groups_of(pool)
        usable = [group for group in groups if len(group) >= self.min_images]
        notes = [self._too_small(groups, usable)]
        if num_clients <= len(usable):
            drawn = np.sort(generator.choice(len(usable), num_clients, replace=False))
            clients = [usable[group] for group in drawn]
            notes.append(not_drawn(usable, clients))
        else:
            self._check_divisible(num_clients, [len(group) for group in usable])
            counts = clients_of([len(group) for group in usable], num_clients)
            clients = [
                part
                for group, count in zip(usable, counts.tolist(), strict=True)
                for part in self._divide(group, count, generator)
            ]
        return PartitionResult(clients, "; ".join(filter(None, notes)))

    def _too_small(self, groups: list[Positions], usable: list[Positions]) -> str:
        """Return a note on the groups that are left out because they are too small."""
        count = len(groups) - len(usable)
        images = sum(map(len, groups)) - sum(map(len, usable))
        least = f"fewer than {self.min_images} (partition.min_images)"
        left_out = f"left out: {count} of {len(groups)} groups, each with {least} images"
        return f"{left_out}, together {images}" if count else ""

    def _check_divisible(self, num_clients: int, sizes: Sequence[int]) -> None:
        """Check that groups can be divided among more clients than there are groups.

        Raises:
            ConfigError: the settings do not allow it, or there are too few images.
        """
        enough = f"groups with at least {self.min_images} training images (partition.min_images)"
        if not sizes:
            raise ConfigError("num_clients", num_clients, f"the data set has no {enough}")
        if self.size_alpha is None:
            allowed = (
                f"the data set has {len(sizes)} {enough}; use at most {len(sizes)} clients, or "
                "divide groups among several clients with partition.size_alpha=1"
            )
            raise ConfigError("num_clients", num_clients, allowed)
        most = sum(size // self.min_images for size in sizes)
        if num_clients > most:
            allowed = (
                f"the {len(sizes)} groups are enough for at most {most} clients with "
                f"{self.min_images} images each; lower num_clients or partition.min_images"
            )
            raise ConfigError("num_clients", num_clients, allowed)

    def _divide(
        self, group: Positions, clients: int, generator: np.random.Generator
    ) -> list[Positions]:
        """Divide a group at random: each client's minimum, and a Dirichlet share of the rest."""
        assert self.size_alpha is not None
        rest = len(group) - clients * self.min_images
        shares = generator.dirichlet(np.full(clients, self.size_alpha))
        cuts = np.rint(np.cumsum(shares)[:-1] * rest).astype(np.int64)
        cuts += self.min_images * np.arange(1, clients)
        return [np.sort(part) for part in np.split(generator.permutation(group), cuts)]


def groups_of(pool: TrainingPool) -> list[Positions]:
    """Return the positions of each domain that has images, ascending."""
    order = np.argsort(pool.domain_of, kind="stable")
    sizes = np.bincount(pool.domain_of, minlength=len(pool.domains))
    return [group for group in np.split(order, np.cumsum(sizes)[:-1]) if len(group)]


def not_drawn(usable: list[Positions], drawn: list[Positions]) -> str:
    """Return a note on the groups that are large enough, but were not drawn."""
    count = len(usable) - len(drawn)
    images = sum(map(len, usable)) - sum(map(len, drawn))
    return f"not drawn: {count} of {len(usable)} groups, {images} images" if count else ""


def clients_of(sizes: Sequence[int], num_clients: int) -> NDArray[np.int64]:
    """Return how many clients each group is divided among, in proportion to its images.

    Every group has one client. Each further client goes to the group that then has the most images
    per client (the D'Hondt method). So no client
    has fewer than m images on average, if the groups can give `num_clients` clients m images.

    Args:
        sizes: the images of each group.
        num_clients: at least the number of groups.

    Returns:
        [G] int64 with sum `num_clients`.
    """
    counts = np.ones(len(sizes), dtype=np.int64)
    queue = [(-size / 2, group) for group, size in enumerate(sizes)]
    heapq.heapify(queue)
    for _ in range(num_clients - len(sizes)):
        _, group = queue[0]
        counts[group] += 1
        heapq.heapreplace(queue, (-sizes[group] / (counts[group] + 1), group))
    return counts
