"""One data set divided among clients, each client's part cut into training and validation."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from task.config import LocalConfig
from task.data.partitions.base import Positions
from task.data.sources.base import ImageDataset
from task.seeding import numpy_generator

VALIDATION_SHARE = 0.1


class ClientSplit(NamedTuple):
    """One client's images, as positions in the data set; disjoint."""

    train: Positions
    validation: Positions


@dataclass(frozen=True)
class FederatedData:
    """A data set and every client's share of it.

    Attributes:
        dataset: the images, the classes and the test set.
        clients: indexed by client; the same for equal settings and seed, on every machine.
        note: what the partition had to do to reach it; mostly empty.
    """

    dataset: ImageDataset
    clients: list[ClientSplit]
    note: str


def federate(config: LocalConfig) -> FederatedData:
    """Load the data set and divide its training images among the clients.

    Raises:
        ConfigError: the data cannot serve so many clients.
    """
    dataset = config.source().load()
    generator = numpy_generator(config.seed, "partition")
    labels = dataset.labels[dataset.train]
    division = config.divider().divide(labels, config.num_clients, generator)
    clients = [
        hold_out(dataset.train[part], numpy_generator(config.seed, "validation", client))
        for client, part in enumerate(division.clients)
    ]
    return FederatedData(dataset, clients, division.note)


def hold_out(positions: Positions, generator: np.random.Generator) -> ClientSplit:
    """Keep a tenth for validation, to the nearest image; one at least where there are two."""
    count = int(len(positions) * VALIDATION_SHARE + 0.5)
    if len(positions) >= 2:
        count = max(count, 1)
    shuffled = generator.permutation(positions)
    return ClientSplit(np.sort(shuffled[count:]), np.sort(shuffled[:count]))
