"""ResNet-50 as UniVarFL and FedUV run it on Tiny ImageNet and Office-Home.

7x7 stem at stride 2, no max-pool, four stages of 3, 4, 6 and 3 bottleneck blocks. The smallest
image is 16x16.
"""

from dataclasses import dataclass
from typing import ClassVar

from task.models.layers.blocks import Bottle
from task.models.layers.residual import ResidualSettings, Shape


@dataclass
class ResNet50Settings(ResidualSettings):
    """Settings of ResNet-50; the papers use 2048 features."""

    least_image_size: ClassVar = 16

    def shape(self) -> Shape:
        return Shape((64, 7, 2), Bottle, ((3, 64, 1), (4, 128, 2), (6, 256, 2), (3, 512, 2)))
