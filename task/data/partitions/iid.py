"""IID: the images shuffled and dealt out, so that every client sees the same mix."""

from dataclasses import dataclass

import numpy as np

from task.data.partitions.base import Divided, Division, Pool


@dataclass
class Iid(Divided):
    """Shuffle, then cut into parts whose sizes differ by one at most."""

    def divide(self, pool: Pool, num_clients: int, generator: np.random.Generator) -> Division:
        self.check(len(pool.labels), num_clients)
        shuffled = generator.permutation(len(pool.labels))
        return Division([np.sort(part) for part in np.array_split(shuffled, num_clients)])
