"""A site's own images, and what its owner allows to be done with them."""

import numpy as np

from task.config import LocalConfig
from task.data.federated import FederatedData, notes, unvalidated_note
from task.data.image_store.store import dataset_version, open_dataset
from task.data.sources.base import Source
from task.data.splits.clients import ClientImages
from task.errors import DataError, SiteError
from task.site import Site


def federate_site(config: LocalConfig, site: Site) -> FederatedData:
    """Open one site's own data; its client number is its place among the sorted sites.

    Raises:
        SiteError: the experiment does not list the site, or asks for what its owner does not allow.
        ConfigError, DataError: its images cannot be used, or are too few to train and validate on.
    """
    dataset = open_dataset(site_source(config, site), site.keep_free_megabytes)
    client = list(config.partitioner().sites).index(site.name)
    train = dataset.train
    ends = np.array([0, len(train)])
    share, subject_of = config.validation_share, dataset.subject_of
    clients = ClientImages(train, ends, config.seed, share, client, subject_of)
    if len(clients[client].train) < 2:
        raise DataError(f"{site.directory}: {len(dataset.train)} images are too few to train on")
    unused = f"{len(dataset.test)} images of a test split are not used" if len(dataset.test) else ""
    return FederatedData(dataset, clients, notes(dataset, unused, unvalidated_note(clients)))


def site_version(config: LocalConfig, site: Site) -> str:
    """Return a hash of the state of a site's image files, as in `ImageDataset.version`.

    Raises:
        SiteError: the experiment does not list the site, or asks for what its owner does not allow.
        ConfigError, DataError: its images cannot be used.
    """
    return dataset_version(site_source(config, site))


def site_source(config: LocalConfig, site: Site) -> Source:
    """Return a site's own images as a data set.

    Raises:
        SiteError: the experiment does not list the site, or asks for what its owner does not allow.
    """
    sites = config.partitioner().sites
    if site.name not in sites:
        known = f"is not in partition.names, which lists {', '.join(sites)}"
        raise SiteError(f"site {site.name!r} {known}; add it there, or correct site in site.toml")
    check_site_limits(config, site)
    return config.source().at_site(site.directory)


def check_site_limits(config: LocalConfig, site: Site) -> None:
    """Check an experiment against the limits that a site's owner has set.

    Raises:
        SiteError: it exceeds one.
    """
    check_amount(site, config.local_epochs, config.batch_size)
    noisy = config.privacy.private and config.privacy.noise_multiplier > 0
    if site.max_epsilon is not None and (not noisy or config.privacy.reproducible):
        raise SiteError(
            f"site {site.name} trains only with secret noise of its own (its max-epsilon); add "
            "privacy=example or client, with privacy.noise_multiplier above 0 and "
            "privacy.reproducible=false"
        )
    if site.max_norm is not None and config.update.rounded:
        raise SiteError(
            f"site {site.name} limits the norm of its updates (its max-norm), and rounding with "
            f"update={config.update.format} can exceed it; add update=float32"
        )
    for member, method in zip(config.local_method().members(), config.methods(), strict=True):
        if site.max_norm is not None and member.server_update:
            raise SiteError(
                f"site {site.name} clips its updates (its max-norm), but clients of "
                f"method={method} must keep their whole update; choose another method"
            )


def check_amount(site: Site, epochs: int, batch_size: int) -> None:
    """Check how much is trained at a time, in a round or after the last one.

    Raises:
        SiteError: it is more than the site's owner allows.
    """
    if epochs > site.max_epochs:
        raise SiteError(
            f"site {site.name} trains at most {site.max_epochs} local epochs at a time (its "
            f"max-epochs), but the experiment asks for {epochs}"
        )
    if batch_size > site.max_batch_size:
        raise SiteError(
            f"site {site.name} trains on batches of at most {site.max_batch_size} images (its "
            f"max-batch-size), but the experiment asks for {batch_size}"
        )
