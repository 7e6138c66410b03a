"""A partition that leaves its first client without a single image."""

from dataclasses import dataclass

import numpy as np

from task.data.partitions.base import Divided, Division, Pool


@dataclass
class Starved(Divided):
    """IID among all clients but the first."""

    def divide(self, pool: Pool, num_clients: int, generator: np.random.Generator) -> Division:
        shuffled = generator.permutation(len(pool.labels))
        parts = [np.sort(part) for part in np.array_split(shuffled, num_clients - 1)]
        return Division([np.empty(0, dtype=np.int64), *parts])
