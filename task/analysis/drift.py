"""Client drift: norms of the updates of one round, and the distances between them."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

LEAST = 1e-24  # a product of norms; avoids a division by 0 for an update of 0


class Drift(NamedTuple):
    """One client's update compared with the other clients'.

    Attributes:
        length: its L2 norm.
        cosine: its cosine with another client's update, mean over the others; NaN for one client.
        distance: its L2 distance from another client's update, mean over the others.
    """

    length: float
    cosine: float
    distance: float


def drifts(clients: Sequence[int], layers: Iterable[Tensor]) -> dict[int, Drift]:
    """Return the drift of each client's update.

    Args:
        clients: the numbers of the clients.
        layers: parts of the updates, each [clients, numbers]; one at a time is in memory.
    """
    products = torch.zeros(len(clients), len(clients), dtype=torch.float64)
    for layer in layers:
        part = layer.double()
        products += part @ part.T
    squares = products.diagonal()
    norms = squares.sqrt()
    cosines = products / torch.outer(norms, norms).clamp_min(LEAST)
    squared_distances = squares[:, None] + squares[None, :] - 2 * products
    distances = squared_distances.clamp_min(
        0
    ).sqrt()  # rounding can make the square of a distance of 0 negative
    others = len(clients) - 1
    drift_of = {}
    for row, client in enumerate(clients):
        cosine, distance = (
            float(table[row].sum() - table[row, row]) / others if others else float("nan")
            for table in (cosines, distances)
        )
        drift_of[client] = Drift(float(norms[row]), cosine, distance)
    return drift_of
