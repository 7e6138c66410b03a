"""Real sites: each client is a machine with its own images, so nothing is partitioned here."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from task.data.partitions.base import Partitioner, PartitionResult, TrainingPool
from task.errors import refuse
from task.registry import Names
from task.site import SITE_NAME, SITE_NAME_FORM


@dataclass
class SitePartitioner(Partitioner):
    """The sites of an experiment.

    Attributes:
        names: the sites' names; client i is the i-th of them in alphabetical order.
    """

    names: Names

    def __post_init__(self) -> None:
        if not self.names or len(set(self.names)) < len(self.names):
            refuse(self, "names", "must list each site once, as in partition.names=[a,b]")
        if not all(SITE_NAME.fullmatch(name) for name in self.names):
            refuse(self, "names", f"each name must be {SITE_NAME_FORM}")

    @property
    def sites(self) -> Sequence[str]:
        return sorted(self.names)

    def partition(
        self, pool: TrainingPool, num_clients: int, generator: np.random.Generator
    ) -> PartitionResult:
        return PartitionResult([np.empty(0, dtype=np.int64) for _ in self.names])
