"""ResNet-56 as FedAlign runs it on CIFAR, from FedML.

3x3 stem at stride 1, no max-pool, three stages of six bottleneck blocks. The smallest image is 8x8.
"""

from dataclasses import dataclass
from typing import ClassVar

from task.models.layers.blocks import Bottle
from task.models.layers.residual import ResidualSettings, Shape


@dataclass
class ResNet56Settings(ResidualSettings):
    """Settings of ResNet-56, designed for 32x32 images."""

    least_image_size: ClassVar = 8

    def shape(self) -> Shape:
        return Shape((16, 3, 1), Bottle, ((6, 16, 1), (6, 32, 2), (6, 64, 2)))
