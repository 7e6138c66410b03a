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


def counts(data: FederatedData) -> NDArray[np.int64]:
    """Return images per client, class and domain, including validation: [K, classes, domains]."""
    dataset = data.dataset
    shape = (len(dataset.classes), len(dataset.domains))
    table = np.zeros((len(data.clients), *shape), dtype=np.int64)
    for client, split in data.clients.items():
        positions = np.concatenate(split)
        cells = (dataset.labels[positions], dataset.domain_of[positions])
        np.add.at(table[client], cells, 1)
    return table


def skew(table: NDArray[np.int64]) -> Skew:
    """Return the skew of images per client and class (or domain).

    Args:
        table: [K, classes]; each client has at least one image.
    """
    own = table / table.sum(axis=1, keepdims=True)
    whole = table.sum(axis=0) / table.sum()
    logarithms = np.log(np.where(own > 0, own, 1))
    return Skew(np.abs(own - whole).sum(axis=1) / 2, np.exp(-(own * logarithms).sum(axis=1)))
