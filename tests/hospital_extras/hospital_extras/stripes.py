"""Drawn images of stripes: upright ones and level ones."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from PIL import Image

from univarfl.extend import DatasetIndex, Source

DRAWING = 16


@dataclass
class Stripes(Source):
    """Stripes in greyscale.

    Attributes:
        images: how many; a fifth of them are for testing.
    """

    channels: ClassVar = 1
    mean: ClassVar = (0.5,)
    std: ClassVar = (0.5,)

    images: int

    def fingerprint(self) -> str:
        return "1"

    def dataset_index(self) -> DatasetIndex:
        places = np.arange(self.images)
        return DatasetIndex(
            classes=("upright", "level"),
            labels=places % 2,
            test=places % 5 == 0,
            read=draw,
            name=lambda index: f"drawing {index}",
            domains=("",),
            domain_of=np.zeros(self.images, dtype=np.int64),
        )


def draw(index: int) -> Image.Image:
    """Return one drawing."""
    noise = np.random.default_rng(index).integers(0, 64, (DRAWING, DRAWING))
    lines = (np.arange(DRAWING) + index // 2 % 4) // 2 % 2
    pixels = noise + 160 * (lines[None, :] if index % 2 == 0 else lines[:, None])
    return Image.fromarray(pixels.astype(np.uint8))
