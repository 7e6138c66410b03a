"""A partitioner that gives its first client no image."""

from dataclasses import dataclass

import numpy as np

from task.data.partitions.base import MinimumSizePartitioner, PartitionResult, TrainingPool


@dataclass
class StarvedPartitioner(MinimumSizePartitioner):
    """IID among all clients except the first."""

    def partition(
        self, pool: TrainingPool, num_clients: int, generator: np.random.Generator
    ) -> PartitionResult:
        shuffled = generator.permutation(len(pool.labels))
        parts = [np.sort(part) for part in np.array_split(shuffled, num_clients - 1)]
        return PartitionResult([np.empty(0, dtype=np.int64), *parts])
