"""Real sites: every client is a machine with a folder of its own, and nothing is divided here."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from task.data.partitions.base import Division, Partition, Pool
from task.errors import ConfigError, refuse
from task.registry import Names


@dataclass
class Sites(Partition):
    """The names of the sites; client i is the i-th of them in alphabetical order."""

    names: Names

    def __post_init__(self) -> None:
        if not self.names or len(set(self.names)) < len(self.names):
            refuse(self, "names", "must list the sites, each once: partition.names=[a,b]")

    @property
    def sites(self) -> Sequence[str]:
        return sorted(self.names)

    def divide(self, pool: Pool, num_clients: int, generator: np.random.Generator) -> Division:
        if num_clients != len(self.names):
            allowed = f"partition.names lists {len(self.names)} sites"
            raise ConfigError("num_clients", num_clients, allowed)
        return Division([np.empty(0, dtype=np.int64) for _ in self.names])
