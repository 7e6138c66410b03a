"""No augmentation, for images such as digits, which must not be flipped."""

from dataclasses import dataclass

import torch
from torch import Tensor

from task.data.augmentations.base import Augmentation


@dataclass
class NoAugmentation(Augmentation):
    """Leave images unchanged."""

    def draw(self, images: int, generator: torch.Generator) -> Tensor:
        return torch.empty(images, 0, dtype=torch.int64)

    def apply(self, pixels: Tensor, changes: Tensor) -> Tensor:
        return pixels
