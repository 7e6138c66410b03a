"""How far a round's clients go, and how far apart."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

LEAST = 1e-24  # a product of lengths; an update that is nothing has no direction


class Drift(NamedTuple):
    """One client's update beside the others'.

    Attributes:
        length: of the update.
        cosine: with another client's update, the mean over the others; NaN for one client.
        distance: from another client's update, the same mean.
    """

    length: float
    cosine: float
    distance: float


def drifts(clients: Sequence[int], layers: Iterable[Tensor]) -> dict[int, Drift]:
    """By client, its update beside the others'.

    Args:
        clients: whose updates.
        layers: parts of the updates, [clients, anything]; one at a time is in memory.
    """
    products = torch.zeros(len(clients), len(clients), dtype=torch.float64)
    for layer in layers:
        part = layer.double()
        products += part @ part.T
    squares = products.diagonal()
    lengths = squares.sqrt()
    cosines = products / torch.outer(lengths, lengths).clamp_min(LEAST)
    apart = squares[:, None] + squares[None, :] - 2 * products
    distances = apart.clamp_min(0).sqrt()  # below 0 by rounding, where two are the same
    others = len(clients) - 1
    found = {}
    for row, client in enumerate(clients):
        cosine, distance = (
            float(table[row].sum() - table[row, row]) / others if others else float("nan")
            for table in (cosines, distances)
        )
        found[client] = Drift(float(lengths[row]), cosine, distance)
    return found
