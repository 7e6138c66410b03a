"""ResNet-18 as FedUV runs it on CIFAR-100 and HAM10000.

3x3 stem at stride 1, no max-pool, four stages of two basic blocks, each stage at stride 2. The
smallest image is 16x16.
"""

from dataclasses import dataclass
from typing import ClassVar

from task.models.layers.residual import Basic, ResidualSettings


@dataclass
class ResNet18Settings(ResidualSettings):
    """Settings of ResNet-18; FedUV uses 512 features."""

    least_image_size: ClassVar = 16
    stem: ClassVar = (64, 3, 1)
    block: ClassVar = Basic
    stages: ClassVar = ((2, 64, 2), (2, 128, 2), (2, 256, 2), (2, 512, 2))
