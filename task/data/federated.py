"""One data set divided among clients, each client's part cut into training and validation."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from task.config import LocalConfig
from task.data.dataset import ImageDataset, Positions
from task.data.partitions.base import Pool
from task.data.store import open_dataset
from task.errors import DataError, SiteError
from task.seeding import numpy_generator
from task.site import Site

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
        clients: by client; the same for equal settings and seed, on every machine. A site has none
            but its own, and the coordinator of sites has empty ones.
        notes: what a person should know of data and partition; mostly empty.
    """

    dataset: ImageDataset
    clients: Mapping[int, ClientSplit]
    notes: tuple[str, ...]


def federate(config: LocalConfig) -> FederatedData:
    """Open the data set and divide its training images among the clients.

    Raises:
        ConfigError: the data are not there, or cannot serve so many clients.
        DataError: they cannot be used.
    """
    source, divider = config.source(), config.divider()
    dataset = open_dataset(source.at_coordinator() if divider.sites else source)
    generator = numpy_generator(config.seed, "partition")
    train = dataset.train
    pool = Pool(dataset.labels[train], dataset.domain_of[train], dataset.domains)
    division = divider.divide(pool, config.num_clients, generator)
    clients = {
        client: hold_out(dataset.train[part], config.seed, client)
        for client, part in enumerate(division.clients)
    }
    return FederatedData(dataset, clients, notes(dataset, division.note))


def federate_site(config: LocalConfig, site: Site) -> FederatedData:
    """Open one site's own data: it is the client whose number is its place among the sites.

    Raises:
        SiteError: the experiment does not know the site.
        ConfigError, DataError: its images cannot be used, or are too few to train and validate on.
    """
    sites = config.divider().sites
    if site.name not in sites:
        known = f"the experiment's sites are {', '.join(sites)} (partition.names)"
        raise SiteError(f"a SuperNode calls itself {site.name!r}, and {known}")
    client = list(sites).index(site.name)
    dataset = open_dataset(config.source().at_site(site.directory))
    if site.most_epochs is not None and config.local_epochs > site.most_epochs:
        raise SiteError(
            f"site {site.name} trains {site.most_epochs} local epochs a round at most (its "
            f"max-epochs), and the experiment asks for {config.local_epochs}"
        )
    for member, method in zip(config.local_method().members(), config.methods(), strict=True):
        if site.most_norm is not None and member.server_half:
            raise SiteError(
                f"site {site.name} shortens what it sends (its max-norm), and method={method} has "
                "clients remember it whole; choose another method"
            )
    split = hold_out(dataset.train, config.seed, client)
    if len(split.train) < 2:
        raise DataError(f"{site.directory}: {len(dataset.train)} images are too few to train on")
    unused = f"{len(dataset.test)} images of a test split are not used" if len(dataset.test) else ""
    return FederatedData(dataset, {client: split}, notes(dataset, unused))


def hold_out(positions: Positions, seed: int, client: int) -> ClientSplit:
    """Keep a tenth for validation, to the nearest image; one at least where there are two."""
    generator = numpy_generator(seed, "validation", client)
    count = int(len(positions) * VALIDATION_SHARE + 0.5)
    if len(positions) >= 2:
        count = max(count, 1)
    shuffled = generator.permutation(positions)
    return ClientSplit(np.sort(shuffled[count:]), np.sort(shuffled[:count]))


def notes(dataset: ImageDataset, *more: str) -> tuple[str, ...]:
    """The data set's notes, the images that were left out, and more, as far as there is any."""
    found = [*dataset.notes, *one_sided(dataset)]
    if dataset.skipped:
        name, reason = dataset.skipped[0]
        count = f"{len(dataset.skipped)} of {len(dataset.labels)} images were left out"
        found.append(f"{count}, such as {name}: {reason}")
    return tuple(filter(None, [*found, *more]))


def one_sided(dataset: ImageDataset) -> list[str]:
    """Classes that are tested and never trained on, or the other way round."""
    if not len(dataset.train) or not len(dataset.test):
        return []
    trained, tested = (
        set(np.unique(dataset.labels[part]).tolist()) for part in (dataset.train, dataset.test)
    )
    return [
        f"{what}: {', '.join(dataset.classes[label] for label in sorted(labels))}"
        for what, labels in (
            ("tested and never trained on", tested - trained),
            ("without an image in the test set", trained - tested),
        )
        if labels
    ]
