"""Pathological label shift: every client holds k classes and nothing of the others.

After H. B. McMahan et al., AISTATS 2017, whose shards may straddle two classes, and Q. Li et al.,
"Federated Learning on Non-IID Data Silos", ICDE 2022, whose draw may leave a class to nobody. Here
the classes are dealt out like cards, so that each goes to as many clients as the next one, give or
take one, and no image is left over.
"""

from dataclasses import dataclass

import numpy as np

from task.data.dataset import Positions
from task.data.partitions.base import Divided, Division, Pool
from task.errors import ConfigError, refuse


@dataclass
class Pathological(Divided):
    """Each client gets `classes_per_client` classes; a class is shared evenly by its clients."""

    classes_per_client: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.classes_per_client < 1:
            refuse(self, "classes_per_client", "must be at least 1")

    def divide(self, pool: Pool, num_clients: int, generator: np.random.Generator) -> Division:
        self.check(len(pool.labels), num_clients)
        classes = np.unique(pool.labels)
        if self.classes_per_client > len(classes):
            allowed = f"the data set has {len(classes)} classes"
            raise ConfigError("partition.classes_per_client", self.classes_per_client, allowed)
        if self.classes_per_client * num_clients < len(classes):
            allowed = (
                f"{num_clients} clients of {self.classes_per_client} classes leave some of the "
                f"{len(classes)} classes to nobody; raise one of the two"
            )
            raise ConfigError("partition.classes_per_client", self.classes_per_client, allowed)
        hands = deal(len(classes), num_clients, self.classes_per_client, generator)
        held: list[list[Positions]] = [[] for _ in range(num_clients)]
        for index, label in enumerate(classes):
            of_class = generator.permutation(np.flatnonzero(pool.labels == label))
            clients = [client for client, hand in enumerate(hands) if index in hand]
            for client, part in zip(clients, np.array_split(of_class, len(clients)), strict=True):
                held[client].append(part)
        parts = [np.concatenate(parts) for parts in held]
        return self.repaired(parts, "from others, so that some hold more classes than they should")


def deal(classes: int, clients: int, each: int, generator: np.random.Generator) -> list[set[int]]:
    """Deal shuffled decks of classes out, `each` different ones to every client in turn."""
    hands: list[set[int]] = []
    deck: list[int] = []
    for _ in range(clients):
        hand = set(deck[:each])
        deck = deck[each:]
        if len(hand) < each:
            new = generator.permutation(classes).tolist()
            # What the hand has already goes to the end, so that it is not dealt to it again.
            new.sort(key=lambda card: card in hand)
            missing = each - len(hand)
            hand |= set(new[:missing])
            deck = new[missing:]
        hands.append(hand)
    return hands
