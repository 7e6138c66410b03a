"""Measures of how much the clients of a split differ."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from task.data.federated import FederatedData


class Skew(NamedTuple):
    """The skew of each client's classes, or domains.

    Attributes:
        distance: [K], the total variation distance between a client's class distribution and that
            of all clients together: the share of its images whose class would have to change.
        effective: [K], the effective number of classes, the exponential of the entropy.
    """

    distance: NDArray[np.float64]
    effective: NDArray[np.float64]


class Counts(NamedTuple):
    """Each client's images, including validation.

    Attributes:
        by_class: [K, classes] int64.
        by_domain: [K, domains] int64.
    """

    by_class: NDArray[np.int64]
    by_domain: NDArray[np.int64]


def counts(data: FederatedData) -> Counts:
    """Return how many images of each class, and of each domain, every client has."""
    dataset, clients = data.dataset, len(data.clients)
    by_class = np.zeros((clients, len(dataset.classes)), dtype=np.int64)
    by_domain = np.zeros((clients, len(dataset.domains)), dtype=np.int64)
    for client, split in data.clients.items():
        positions = np.concatenate(split)
        by_class[client] = np.bincount(dataset.labels[positions], minlength=len(dataset.classes))
        by_domain[client] = np.bincount(
            dataset.domain_of[positions], minlength=len(dataset.domains)
        )
    return Counts(by_class, by_domain)


def skew(table: NDArray[np.int64]) -> Skew:
    """Return the skew of images per client and class (or domain).

    Args:
        table: [K, classes]; each client has at least one image.
    """
    own = table / table.sum(axis=1, keepdims=True)
    whole = table.sum(axis=0) / table.sum()
    logarithms = np.log(np.where(own > 0, own, 1))
    return Skew(np.abs(own - whole).sum(axis=1) / 2, np.exp(-(own * logarithms).sum(axis=1)))
