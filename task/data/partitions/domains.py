"""Feature shift: every client holds images of one domain, all of it or a part."""

from dataclasses import dataclass

import numpy as np

from task.data.dataset import Positions
from task.data.partitions.base import Divided, Division, Pool
from task.errors import ConfigError


@dataclass
class Domains(Divided):
    """One client per domain, or as many for each: K clients cut each of D domains into K / D parts.

    The parts of a domain are IID and differ in size by one at most. Clients follow the domains'
    order: the first K / D hold the first domain.
    """

    def divide(self, pool: Pool, num_clients: int, generator: np.random.Generator) -> Division:
        self.check(len(pool.labels), num_clients)
        count = len(pool.domains)
        if count < 2:
            where = "data=folder has them as <domain>/<class>/*, data=hub in the column data.domain"
            raise ConfigError("partition", "domains", f"the data set has no domains; {where}")
        if num_clients % count:
            allowed = f"must be a multiple of {count}, the domains: {', '.join(pool.domains)}"
            raise ConfigError("num_clients", num_clients, allowed)
        clients: list[Positions] = []
        for domain, name in enumerate(pool.domains):
            members = np.flatnonzero(pool.domain_of == domain)
            if len(members) < self.min_images * num_clients // count:
                allowed = f"domain {name} has {len(members)} training images"
                raise ConfigError("num_clients", num_clients, allowed)
            parts = np.array_split(generator.permutation(members), num_clients // count)
            clients += [np.sort(part) for part in parts]
        return Division(clients)
