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
        by_class: [K, classes] int64; with several labels for an image, by combination of them.
        by_domain: [K, domains] int64.
    """

    by_class: NDArray[np.int64]
    by_domain: NDArray[np.int64]


def counts(data: FederatedData) -> Counts:
    """Return how many images of each class, and of each domain, every client has."""
    dataset, clients = data.dataset, data.clients
    owners, positions = clients.owners(), clients.positions

    def tabulated(column: NDArray[np.int64], values: int) -> NDArray[np.int64]:
        cells = owners * values + column[positions]
        return np.bincount(cells, minlength=len(clients) * values).reshape(len(clients), values)

    return Counts(
        tabulated(dataset.labels, len(dataset.label_names)),
        tabulated(dataset.domain_of, len(dataset.domains)),
    )


def skew(table: NDArray[np.int64]) -> Skew:
    """Return the skew of images per client and class (or domain).

    Args:
        table: [K, classes]; each client has at least one image.
    """
    own = table / table.sum(axis=1, keepdims=True)
    whole = table.sum(axis=0) / table.sum()
    logarithms = np.log(np.where(own > 0, own, 1))
    return Skew(np.abs(own - whole).sum(axis=1) / 2, np.exp(-(own * logarithms).sum(axis=1)))
