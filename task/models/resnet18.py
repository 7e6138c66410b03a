"""ResNet-18 as FedUV runs it on CIFAR-100 and HAM10000: 3x3 stem, every stage at stride 2."""

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from task.models.base import ModelSettings
from task.models.layers.residual import Basic, ResidualNet

STAGES = ((2, 64, 2), (2, 128, 2), (2, 256, 2), (2, 512, 2))


@dataclass
class ResNet18Settings(ModelSettings):
    """Settings of ResNet-18; 512 features in the paper."""

    least_image_size: ClassVar[int] = 16
    residual: ClassVar[bool] = True

    def build(self, channels: int, classes: int) -> ResidualNet:
        stem = nn.Conv2d(channels, 64, 3, padding=1, bias=False)
        return ResidualNet(stem, Basic, STAGES, classes, self.features, self.norm)
