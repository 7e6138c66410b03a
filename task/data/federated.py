"""A data set partitioned among clients, and each client's training and validation images."""

import json
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from task.config import LocalConfig
from task.data.dataset import ImageDataset, Positions
from task.data.image_store.store import open_dataset
from task.data.partitions.base import TrainingPool
from task.data.splits.clients import ClientImages
from task.registry import named
from task.seeding import numpy_generator

MOST_COMPUTED = 1000  # clients; the partition among more is a file
STORED = "task.data.splits.stored:stored_partition"

Partition = tuple[Positions, Positions, str]  # positions, offsets (see `ClientImages`), note


@dataclass(frozen=True)
class FederatedData:
    """A data set and every client's images.

    Attributes:
        dataset: the images, the classes and the test set.
        clients: each client's images, the same on every machine for equal settings and seed. A
            site has only its own client, and the coordinator of sites has clients without images.
        notes: messages for the user about the data and the partition.
    """

    dataset: ImageDataset
    clients: ClientImages
    notes: tuple[str, ...]


class Split(NamedTuple):
    """Every client's images, and notes on them; empty notes are not shown."""

    clients: ClientImages
    notes: tuple[str, ...]


_latest_split: dict[str, Split] = {}  # at most one, by everything that it depends on


def federate(config: LocalConfig) -> FederatedData:
    """Open the data set and partition its training images among the clients.

    Raises:
        ConfigError: the data are missing, or there are too few for so many clients.
        DataError: the data cannot be used.
    """
    source = config.source()
    sites = config.partitioner().sites
    dataset = open_dataset(source.at_coordinator() if sites else source)
    split = split_of(config, dataset)
    return FederatedData(dataset, split.clients, notes(dataset, *split.notes))


def split_of(config: LocalConfig, dataset: ImageDataset) -> Split:
    """Return the split of a data set, computed only if this process's latest one is another.

    Raises:
        ConfigError: there are too few images for so many clients.
    """
    share = config.validation_share
    settings = [config.partition, config.num_clients, config.seed, dataset.content, share]
    key = json.dumps(settings, sort_keys=True)
    if key not in _latest_split:
        split = compute_split(config, dataset)
        _latest_split.clear()
        _latest_split[key] = split
    return _latest_split[key]


def compute_split(config: LocalConfig, dataset: ImageDataset) -> Split:
    """Partition the training images, or read the stored partition if there are many clients.

    Raises:
        ConfigError: there are too few images for so many clients.
    """
    seed, share = config.seed, config.validation_share

    def compute() -> Partition:
        train = dataset.train
        pool = TrainingPool(dataset.labels[train], dataset.domain_of[train], dataset.domains)
        generator = numpy_generator(seed, "partition")
        result = config.partitioner().partition(pool, config.num_clients, generator)
        clients = ClientImages.of(result.clients, seed, share)
        return train[clients.positions], clients.offsets, result.note

    many = config.num_clients > MOST_COMPUTED
    positions, offsets, note = named(STORED)(config, dataset, compute) if many else compute()
    clients = ClientImages(positions, offsets, seed, share, subject_of=dataset.subject_of)
    more = divided_note(clients, len(dataset.test)), unvalidated_note(clients)
    return Split(clients, (note, *more))


def divided_note(clients: ClientImages, test_images: int) -> str:
    """Return a note if subjects have images at more than one client."""
    if not (divided := clients.divided_subjects()):
        return ""
    return (
        f"{divided} subjects have images at more than one client, so accuracy on validation images "
        f"can be too high{'; accuracy on test images is not' if test_images else ''}"
    )


def unvalidated_note(clients: ClientImages) -> str:
    """Return a note if clients cannot validate, because they have images of too few subjects."""
    if not (number := clients.without_validation()):
        return ""
    return f"{number} clients have no validation images: they have images of too few subjects"


def notes(dataset: ImageDataset, *more: str) -> tuple[str, ...]:
    """Return the data set's notes, those on its classes and skipped images, and `more`."""
    found = [*dataset.notes, *unmatched_class_notes(dataset)]
    if dataset.skipped:
        name, reason = dataset.skipped[0]
        count = f"{len(dataset.skipped)} of {len(dataset.labels)} images were left out"
        found.append(f"{count}, such as {name}: {reason}")
    return tuple(filter(None, [*found, *more]))


def unmatched_class_notes(dataset: ImageDataset) -> list[str]:
    """Return a note for classes without training images, and one for those without test images."""
    if not len(dataset.train) or not len(dataset.test):
        return []
    trained, tested = (
        set(np.flatnonzero(dataset.images_of_class(part)).tolist())
        for part in (dataset.train, dataset.test)
    )
    return [
        f"classes without {kind} images: {', '.join(dataset.classes[label] for label in labels)}"
        for kind, labels in (
            ("training", sorted(tested - trained)),
            ("test", sorted(trained - tested)),
        )
        if labels
    ]
