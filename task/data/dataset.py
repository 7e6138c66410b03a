"""A data set ready to be trained on."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Positions = NDArray[np.int64]


@dataclass(frozen=True)
class ImageDataset:
    """A data set, its pixels in memory or mapped from disk.

    Attributes:
        version: changes with the source's files and settings.
        images: [N, H, W, C] uint8.
        labels: [N] int64, an index into `classes`.
        domain_of: [N] int64, an index into `domains`.
        classes: the class names.
        domains: the names of the domains; one, without a name, where there are none.
        train: positions of the images that clients share out, ascending.
        test: positions of the held-out test set, ascending; disjoint from `train`.
        mean: per channel, subtracted from images scaled to [0, 1].
        std: per channel, divides what the subtraction leaves.
        skipped: images that could not be decoded and belong to neither, with the reason.
        notes: what else a person should know of it.
    """

    version: str
    images: NDArray[np.uint8]
    labels: Positions
    domain_of: Positions
    classes: tuple[str, ...]
    domains: tuple[str, ...]
    train: Positions
    test: Positions
    mean: tuple[float, ...]
    std: tuple[float, ...]
    skipped: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
