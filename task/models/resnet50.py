"""ResNet-50 as UniVarFL and FedUV run it on Tiny ImageNet and Office-Home: no max-pool."""

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from task.models.base import ModelSettings
from task.models.layers.residual import Bottle, ResidualNet

STAGES = ((3, 64, 1), (4, 128, 2), (6, 256, 2), (3, 512, 2))


@dataclass
class ResNet50Settings(ModelSettings):
    """Settings of ResNet-50; 2048 features in the paper."""

    least_image_size: ClassVar[int] = 16
    residual: ClassVar[bool] = True

    def build(self, channels: int, classes: int) -> ResidualNet:
        stem = nn.Conv2d(channels, 64, 7, stride=2, padding=3, bias=False)
        return ResidualNet(stem, Bottle, STAGES, classes, self.features, self.norm)
