"""IID: the images shuffled and dealt out, so that every client sees the same mix."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from task.data.partitions.base import Division, Partition


@dataclass
class Iid(Partition):
    """Shuffle, then cut into parts whose sizes differ by one at most."""

    def divide(
        self, labels: NDArray[np.int64], num_clients: int, generator: np.random.Generator
    ) -> Division:
        self.check(len(labels), num_clients)
        shuffled = generator.permutation(len(labels))
        return Division([np.sort(part) for part in np.array_split(shuffled, num_clients)])
