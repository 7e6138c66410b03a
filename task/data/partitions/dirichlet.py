"""Label shift: each class is divided among the clients by a draw from a Dirichlet distribution.

The balanced split follows MOON, FedUV and FedAlign: a client with an even share of the images gets
no more of any class, and draws are repeated until every client has the minimum. With 100 clients,
alpha 0.01 and 10 classes almost no draw reaches the minimum. So there are at most `DRAWS` draws:
the one whose smallest client is largest is kept, and images move from its largest clients to its
smallest, which the record notes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from task.data.dataset import Positions
from task.data.partitions.base import MinimumSizePartitioner, PartitionResult, TrainingPool
from task.errors import refuse

DRAWS = 50
LARGEST_ALPHA = 1e6  # with very large values the sum of a draw overflows


class Draw(NamedTuple):
    """One draw.

    Attributes:
        positions: by class, the shuffled positions of its images: first those of client 0, ...
        counts: by class, how many of them each client gets, [K] int64.
        sizes: [K] int64, the images of each client.
    """

    positions: list[Positions]
    counts: list[Positions]
    sizes: Positions


@dataclass
class DirichletPartitioner(MinimumSizePartitioner):
    """Dirichlet label shift.

    Attributes:
        alpha: concentration, above 0 and at most 1e6; near 0 each class goes to one client, with
            growing alpha the split approaches IID.
        balanced: whether a client with an even share of the images gets no more, so that clients
            differ in their classes more than in their sizes.
    """

    alpha: float
    balanced: bool

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.alpha <= LARGEST_ALPHA:
            refuse(self, "alpha", f"must be above 0 and at most {LARGEST_ALPHA:g}")

    def partition(
        self, pool: TrainingPool, num_clients: int, generator: np.random.Generator
    ) -> PartitionResult:
        self.check_num_clients(num_clients, len(pool.labels))
        classes = [np.flatnonzero(pool.labels == label) for label in np.unique(pool.labels)]
        best = self._draw(classes, num_clients, generator)
        for _ in range(DRAWS - 1):
            if best.sizes.min() >= self.min_images:
                break
            draw = self._draw(classes, num_clients, generator)
            if draw.sizes.min() > best.sizes.min():
                best = draw
        everyone = np.arange(num_clients)
        clients = np.concatenate([np.repeat(everyone, counts) for counts in best.counts])
        by_client = np.concatenate(best.positions)[np.argsort(clients, kind="stable")]
        parts = np.split(by_client, np.cumsum(best.sizes)[:-1])
        return self.with_minimum_size(parts, f"after {DRAWS} draws")

    def _draw(
        self, classes: Sequence[Positions], num_clients: int, generator: np.random.Generator
    ) -> Draw:
        images = sum(map(len, classes))
        even_share = images / num_clients if self.balanced else np.inf
        draw = Draw([], [], np.zeros(num_clients, dtype=np.int64))
        for members in classes:
            of_class = generator.permutation(members)
            shares = class_shares(self.alpha, draw.sizes < even_share, generator)
            cuts = (np.cumsum(shares)[:-1] * len(of_class)).astype(np.int64)
            ends = np.minimum(cuts, len(of_class))
            counts = np.diff(ends, prepend=0, append=len(of_class))
            draw.sizes[:] += counts
            draw.positions.append(of_class)
            draw.counts.append(counts)
        return draw


def class_shares(
    alpha: float, may_grow: NDArray[np.bool_], generator: np.random.Generator
) -> NDArray[np.float64]:
    """Draw each client's share of one class.

    At small alpha a draw can give everything to clients that may not grow. Then one of the others,
    drawn uniformly, gets the whole class.

    Args:
        alpha: concentration of the Dirichlet distribution.
        may_grow: [K] bool; the other clients' shares become 0, and the rest is rescaled.
        generator: makes the draws.

    Returns:
        [K] float64, with sum 1.
    """
    shares = generator.dirichlet(np.full(len(may_grow), alpha)) * may_grow
    total = shares.sum()
    if total > 0:
        return np.asarray(shares / total)
    shares = np.zeros(len(may_grow))
    shares[generator.choice(np.flatnonzero(may_grow))] = 1
    return shares
