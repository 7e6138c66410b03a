"""Label shift: each class shared out by a draw from a Dirichlet distribution, sizes kept balanced.

This is the split that MOON, FedUV and FedAlign run: a client that already holds its even share
takes no more of a class, and the draw is repeated until every client holds enough. At 100 clients,
alpha 0.01 and 10 classes hardly any draw succeeds, so ours are bounded: after `DRAWS`, the draw
that came closest is kept, and its smallest clients are filled up from its largest, which the record
says.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from task.data.partitions.base import Division, Partition, Positions
from task.errors import refuse

DRAWS = 50


@dataclass
class Dirichlet(Partition):
    """Balanced Dirichlet label shift.

    Attributes:
        alpha: concentration; near 0 a class goes to one client, at infinity the split is IID.
    """

    alpha: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.alpha <= 0:
            refuse(self, "alpha", "must be above 0")

    def divide(
        self, labels: NDArray[np.int64], num_clients: int, generator: np.random.Generator
    ) -> Division:
        self.check(len(labels), num_clients)
        best: list[Positions] = []
        for _ in range(DRAWS):
            drawn = self._draw(labels, num_clients, generator)
            if not best or smallest(drawn) > smallest(best):
                best = drawn
            if smallest(best) >= self.min_images:
                return Division([np.sort(part) for part in best])
        moved = fill_up(best, self.min_images)
        note = f"{moved} images moved to clients below {self.min_images} after {DRAWS} draws"
        return Division([np.sort(part) for part in best], note)

    def _draw(
        self, labels: NDArray[np.int64], num_clients: int, generator: np.random.Generator
    ) -> list[Positions]:
        even_share = len(labels) / num_clients
        held: list[list[Positions]] = [[] for _ in range(num_clients)]
        sizes = np.zeros(num_clients, dtype=np.int64)
        for label in np.unique(labels):
            of_class = generator.permutation(np.flatnonzero(labels == label))
            shares = open_shares(self.alpha, sizes < even_share, generator)
            cuts = (np.cumsum(shares)[:-1] * len(of_class)).astype(np.int64)
            for client, part in enumerate(np.split(of_class, cuts)):
                held[client].append(part)
                sizes[client] += len(part)
        return [np.concatenate(parts) for parts in held]


def open_shares(
    alpha: float, takes_more: NDArray[np.bool_], generator: np.random.Generator
) -> NDArray[np.float64]:
    """Dirichlet shares [num_clients] with those of full clients given to the others; sum 1.

    When the draw leaves the open clients nothing at all, which it does at small alpha, the class
    goes to one of them, as alpha near 0 means.
    """
    shares = generator.dirichlet(np.full(len(takes_more), alpha)) * takes_more
    total = shares.sum()
    if total > 0:
        return np.asarray(shares / total)
    shares = np.zeros(len(takes_more))
    shares[generator.choice(np.flatnonzero(takes_more))] = 1
    return shares


def smallest(parts: list[Positions]) -> int:
    """The size of the smallest part."""
    return min(len(part) for part in parts)


def fill_up(parts: list[Positions], least: int) -> int:
    """Move images from the largest part to the smallest, in place, until none holds too few.

    Returns:
        How many images were moved.
    """
    moved = 0
    while smallest(parts) < least:
        sizes = [len(part) for part in parts]
        poor, rich = int(np.argmin(sizes)), int(np.argmax(sizes))
        count = min(least - sizes[poor], (sizes[rich] - sizes[poor]) // 2)
        parts[poor] = np.concatenate([parts[poor], parts[rich][-count:]])
        parts[rich] = parts[rich][:-count]
        moved += count
    return moved
