"""The interface of all augmentations: draw changes for an epoch, then apply them to batches."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor


@dataclass
class Augmentation(ABC):
    """The settings of one augmentation.

    Changes are drawn on the CPU, once per epoch, so that they depend neither on the device nor on
    the batches. They are applied to whole batches on the device.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid", "allow_inf_nan": False}

    @abstractmethod
    def draw(self, images: int, generator: torch.Generator) -> Tensor:
        """Return the change of each image: [images, ...] int64."""

    @abstractmethod
    def apply(self, pixels: Tensor, changes: Tensor) -> Tensor:
        """Return the changed images, [n, H, W, C] uint8.

        Args:
            pixels: [n, H, W, C] uint8.
            changes: the n rows of `draw` that belong to these images.
        """
