"""How far a round's clients go, and how far apart."""

from collections.abc import Mapping
from typing import NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812  (PyTorch's own abbreviation)
from torch import Tensor


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


def drifts(updates: Mapping[int, Tensor]) -> dict[int, Drift]:
    """By client, its update beside the others'.

    Args:
        updates: by client, its trained parameters minus those it began with, [P].
    """
    stacked = torch.stack([update.double() for update in updates.values()])
    directions = F.normalize(stacked, dim=1)
    cosines, distances = directions @ directions.T, torch.cdist(stacked, stacked)
    others = len(updates) - 1
    found = {}
    for row, client in enumerate(updates):
        cosine, distance = (
            float(table[row].sum() - table[row, row]) / others if others else float("nan")
            for table in (cosines, distances)
        )
        found[client] = Drift(float(stacked[row].norm()), cosine, distance)
    return found
