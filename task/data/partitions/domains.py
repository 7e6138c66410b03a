"""Feature shift: each client holds images of one domain, either all of them or a part."""

from dataclasses import dataclass

import numpy as np

from task.data.dataset import Positions
from task.data.partitions.base import (
    MinimumSizePartitioner,
    PartitionResult,
    TrainingPool,
    check_domains,
)
from task.errors import ConfigError


@dataclass
class DomainPartitioner(MinimumSizePartitioner):
    """Split each of D domains evenly among K / D of the K clients.

    The parts of a domain are IID, and their sizes differ by at most one. Clients follow the order
    of the domains: the first K / D hold the first domain.
    """

    def partition(
        self, pool: TrainingPool, num_clients: int, generator: np.random.Generator
    ) -> PartitionResult:
        self.check_num_clients(num_clients, len(pool.labels))
        check_domains(pool, "domains")
        count = len(pool.domains)
        if num_clients % count:
            allowed = (
                f"must be a multiple of {count}, the number of domains: {', '.join(pool.domains)}"
            )
            raise ConfigError("num_clients", num_clients, allowed)
        clients: list[Positions] = []
        for domain, name in enumerate(pool.domains):
            members = np.flatnonzero(pool.domain_of == domain)
            needed = self.min_images * num_clients // count
            if len(members) < needed:
                allowed = (
                    f"needs {needed} training images of domain {name}, which has {len(members)}"
                )
                raise ConfigError("num_clients", num_clients, allowed)
            parts = np.array_split(generator.permutation(members), num_clients // count)
            clients += [np.sort(part) for part in parts]
        return PartitionResult(clients)
