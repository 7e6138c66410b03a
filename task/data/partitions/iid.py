"""IID: images are shuffled and split evenly, so that all clients have the same class mix."""

from dataclasses import dataclass

import numpy as np

from task.data.partitions.base import MinimumSizePartitioner, PartitionResult, TrainingPool


@dataclass
class IidPartitioner(MinimumSizePartitioner):
    """Shuffle the images and cut them into parts whose sizes differ by at most one."""

    def partition(
        self, pool: TrainingPool, num_clients: int, generator: np.random.Generator
    ) -> PartitionResult:
        self.check_num_clients(num_clients, len(pool.labels))
        shuffled = generator.permutation(len(pool.labels))
        return PartitionResult([np.sort(part) for part in np.array_split(shuffled, num_clients)])
