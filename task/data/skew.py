"""How a division's clients differ, in numbers."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from task.data.federated import FederatedData


class Skew(NamedTuple):
    """How far each client's mix of classes, or of domains, is from the mix of all of them.

    Attributes:
        distance: [K], the share of a client's images that would have to be of another class for
            its mix to be that of all; the total variation distance, 0 for equal mixes.
        effective: [K], the number of equally frequent classes that would be as mixed as a client's;
            the exponential of the entropy.
    """

    distance: NDArray[np.float64]
    effective: NDArray[np.float64]


def counts(data: FederatedData) -> NDArray[np.int64]:
    """Images per client, class and domain, validation included: [K, classes, domains]."""
    dataset = data.dataset
    shape = (len(dataset.classes), len(dataset.domains))
    table = np.zeros((len(data.clients), *shape), dtype=np.int64)
    for client, split in data.clients.items():
        held = np.concatenate(split)
        np.add.at(table[client], (dataset.labels[held], dataset.domain_of[held]), 1)
    return table


def skew(table: NDArray[np.int64]) -> Skew:
    """The skew of images per client and class (or domain), [K, classes]; no client is empty."""
    own = table / table.sum(axis=1, keepdims=True)
    whole = table.sum(axis=0) / table.sum()
    logarithms = np.log(np.where(own > 0, own, 1))
    return Skew(np.abs(own - whole).sum(axis=1) / 2, np.exp(-(own * logarithms).sum(axis=1)))
