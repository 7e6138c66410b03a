"""No augmentation: digits, for one, must not be mirrored."""

from dataclasses import dataclass

import torch
from torch import Tensor

from task.data.augmentations.base import Augmentation


@dataclass
class NoAugmentation(Augmentation):
    """Images as they are."""

    def draw(self, images: int, generator: torch.Generator) -> Tensor:
        return torch.empty(images, 0, dtype=torch.int64)

    def apply(self, pixels: Tensor, changes: Tensor) -> Tensor:
        return pixels
