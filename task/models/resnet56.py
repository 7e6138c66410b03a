"""ResNet-56 as FedAlign runs it on CIFAR: three stages of six bottleneck blocks (FedML's)."""

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from task.models.base import ModelSettings
from task.models.layers.residual import Bottle, ResidualNet

STAGES = ((6, 16, 1), (6, 32, 2), (6, 64, 2))


@dataclass
class ResNet56Settings(ModelSettings):
    """Settings of ResNet-56, made for 32x32."""

    least_image_size: ClassVar[int] = 8
    residual: ClassVar[bool] = True

    def build(self, channels: int, classes: int) -> ResidualNet:
        stem = nn.Conv2d(channels, 16, 3, padding=1, bias=False)
        return ResidualNet(stem, Bottle, STAGES, classes, self.features, self.norm)
