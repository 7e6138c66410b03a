"""Label shift: each class shared out by a draw from a Dirichlet distribution.

The balanced split is the one that MOON, FedUV and FedAlign run: a client that already holds its
even share takes no more of a class, and the draw is repeated until every client holds enough. At
100 clients, alpha 0.01 and 10 classes hardly any draw succeeds, so ours are bounded: after `DRAWS`,
the draw that came closest is kept, and its smallest clients are filled up from its largest, which
the record says.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from task.data.dataset import Positions
from task.data.partitions.base import Divided, Division, Pool
from task.errors import refuse

DRAWS = 50


class Draw(NamedTuple):
    """One draw: positions class by class, the client of each, and how many each client has."""

    positions: Positions
    clients: Positions
    sizes: Positions


@dataclass
class Dirichlet(Divided):
    """Dirichlet label shift.

    Attributes:
        alpha: concentration; near 0 a class goes to one client, at infinity the split is IID.
        balanced: whether a client that holds its even share takes no more, so that the clients
            differ in their classes and less in their sizes.
    """

    alpha: float
    balanced: bool

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.alpha <= 0:
            refuse(self, "alpha", "must be above 0")

    def divide(self, pool: Pool, num_clients: int, generator: np.random.Generator) -> Division:
        self.check(len(pool.labels), num_clients)
        best = self._draw(pool.labels, num_clients, generator)
        for _ in range(DRAWS - 1):
            if best.sizes.min() >= self.min_images:
                break
            drawn = self._draw(pool.labels, num_clients, generator)
            if drawn.sizes.min() > best.sizes.min():
                best = drawn
        by_client = best.positions[np.argsort(best.clients, kind="stable")]
        parts = np.split(by_client, np.cumsum(best.sizes)[:-1])
        return self.repaired(parts, f"after {DRAWS} draws")

    def _draw(self, labels: Positions, num_clients: int, generator: np.random.Generator) -> Draw:
        most = len(labels) / num_clients if self.balanced else np.inf
        positions, clients = [], []
        sizes = np.zeros(num_clients, dtype=np.int64)
        for label in np.unique(labels):
            of_class = generator.permutation(np.flatnonzero(labels == label))
            shares = open_shares(self.alpha, sizes < most, generator)
            cuts = (np.cumsum(shares)[:-1] * len(of_class)).astype(np.int64)
            takers = np.searchsorted(cuts, np.arange(len(of_class)), side="right")
            sizes += np.bincount(takers, minlength=num_clients)
            positions.append(of_class)
            clients.append(takers)
        return Draw(np.concatenate(positions), np.concatenate(clients), sizes)


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
