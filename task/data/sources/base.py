"""What every data set gives."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class ImageDataset:
    """A data set in memory.

    Attributes:
        images: [N, C, H, W] uint8.
        labels: [N] int64, an index into `classes`.
        classes: the class names.
        train: positions of the images that clients share out.
        test: positions of the held-out test set; disjoint from `train`.
        mean: per channel, subtracted from images scaled to [0, 1].
        std: per channel, divides what the subtraction leaves.
    """

    images: NDArray[np.uint8]
    labels: NDArray[np.int64]
    classes: tuple[str, ...]
    train: NDArray[np.int64]
    test: NDArray[np.int64]
    mean: tuple[float, ...]
    std: tuple[float, ...]


@dataclass
class Source(ABC):
    """The settings of one data set, and how to load it."""

    __pydantic_config__: ClassVar = {"extra": "forbid", "allow_inf_nan": False}

    @abstractmethod
    def load(self) -> ImageDataset:
        """Read the data set. Equal settings give equal arrays."""
