"""Pathological label shift: each client holds k classes and no image of any other.

H. B. McMahan et al., AISTATS 2017, cut sorted images into shards, which can contain two classes.
Q. Li et al., "Federated Learning on Non-IID Data Silos", ICDE 2022, draw the classes of each
client, and a class may be drawn by none. With ``deal: even`` classes are dealt like cards: the
numbers of clients that any two classes go to differ by at most one, and every image is used. With
``deal: random`` client i gets class i and draws the others, as in Flower's baseline ``niid_bench``.
"""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from task.data.dataset import Positions
from task.data.partitions.base import MinimumSizePartitioner, PartitionResult, TrainingPool
from task.errors import ConfigError, refuse


@dataclass
class PathologicalPartitioner(MinimumSizePartitioner):
    """Give each client `classes_per_client` classes, and split each class evenly among its clients.

    Attributes:
        classes_per_client: the classes of each client.
        deal: ``even``, so that each class goes to nearly as many clients as any other, or
            ``random``.
    """

    classes_per_client: int
    deal: Literal["even", "random"] = field(default="even", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.classes_per_client < 1:
            refuse(self, "classes_per_client", "must be at least 1")

    def partition(
        self, pool: TrainingPool, num_clients: int, generator: np.random.Generator
    ) -> PartitionResult:
        self.check_num_clients(num_clients, len(pool.labels))
        classes = np.unique(pool.labels)
        if self.classes_per_client > len(classes):
            allowed = f"must be at most {len(classes)}, the number of classes"
            raise ConfigError("partition.classes_per_client", self.classes_per_client, allowed)
        if self.classes_per_client * num_clients < len(classes):
            allowed = (
                f"{num_clients} clients with {self.classes_per_client} classes each cannot hold "
                f"all {len(classes)} classes; raise classes_per_client or num_clients"
            )
            raise ConfigError("partition.classes_per_client", self.classes_per_client, allowed)
        if self.deal == "random" and num_clients < len(classes):
            allowed = f"needs at least {len(classes)} clients, one for each class; use even"
            raise ConfigError("partition.deal", self.deal, allowed)
        deal = draw_classes if self.deal == "random" else deal_classes
        hands = deal(len(classes), num_clients, self.classes_per_client, generator)
        by_client: list[list[Positions]] = [[] for _ in range(num_clients)]
        for index, label in enumerate(classes):
            of_class = generator.permutation(np.flatnonzero(pool.labels == label))
            clients = [client for client, hand in enumerate(hands) if index in hand]
            parts = self.split_class(of_class, len(clients), generator)
            for client, part in zip(clients, parts, strict=True):
                by_client[client].append(part)
        return self.with_minimum_size(
            [np.concatenate(parts) for parts in by_client],
            "from others, so that some hold more than classes_per_client classes",
        )

    def split_class(
        self, of_class: Positions, clients: int, generator: np.random.Generator
    ) -> list[Positions]:
        """Split the shuffled images of one class among the clients that hold it."""
        return np.array_split(of_class, clients)


def draw_classes(
    classes: int, clients: int, each: int, generator: np.random.Generator
) -> list[set[int]]:
    """Give client i class i (modulo `classes`), and draw its other classes without repetition.

    Returns:
        For each client a set of `each` classes.
    """
    hands = []
    for client in range(clients):
        first = client % classes
        others = np.delete(np.arange(classes), first)
        drawn = generator.choice(others, each - 1, replace=False)
        hands.append({first, *drawn.tolist()})
    return hands


def deal_classes(
    classes: int, clients: int, each: int, generator: np.random.Generator
) -> list[set[int]]:
    """Deal shuffled decks of classes to the clients in turn.

    Returns:
        For each client a set of `each` classes.
    """
    hands: list[set[int]] = []
    deck: list[int] = []
    for _ in range(clients):
        hand = set(deck[:each])
        deck = deck[each:]
        if len(hand) < each:
            new = generator.permutation(classes).tolist()
            # Classes that are in the hand already go to the end of the deck, so that no class is
            # dealt to it twice.
            new.sort(key=lambda card: card in hand)
            missing = each - len(hand)
            hand |= set(new[:missing])
            deck = new[missing:]
        hands.append(hand)
    return hands
