"""What every augmentation does: draw changes for an epoch, then make them batch by batch."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor


@dataclass
class Augmentation(ABC):
    """The settings of one augmentation.

    The draw is made on the CPU, once an epoch, so that it is the same whatever the device and the
    batches; the change is made to whole batches on the device.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid", "allow_inf_nan": False}

    @abstractmethod
    def draw(self, images: int, generator: torch.Generator) -> Tensor:
        """What to do to each image: [images, ...] int64."""

    @abstractmethod
    def apply(self, pixels: Tensor, changes: Tensor) -> Tensor:
        """The changed images: [n, H, W, C] uint8, as `pixels` are; `changes` are n drawn rows."""
