"""One linear layer on the pixels: multinomial logistic regression.

It has no hidden layer: its features are the pixels, pooled to a fixed size. On MNIST it has 7,850
parameters, so that noise for privacy of whole clients leaves it some accuracy.
"""

import math
from dataclasses import dataclass

from torch import Tensor, nn

from task.errors import refuse
from task.models.base import ModelSettings, Output


class Linear(nn.Module):
    """Maps images [n, C, H, W] to `Output`; its maps are the pooled images."""

    def __init__(self, channels: int, classes: int, features: int) -> None:
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2d(math.isqrt(features))
        self.classifier = nn.Linear(channels * features, classes)

    def forward(self, x: Tensor) -> Output:
        maps = self.pool(x)
        features = maps.flatten(1)
        return Output(self.classifier(features), features, maps)


@dataclass
class LinearSettings(ModelSettings):
    """Settings of the linear model; ``features`` counts the pixels of a pooled channel."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if math.isqrt(self.features) ** 2 != self.features:
            refuse(self, "features", "must be a square number, such as 784 for 28x28 pixels")
        if self.norm != "group":
            refuse(self, "norm", "must be group: model=linear has no normalisation")

    def build(self, channels: int, classes: int) -> Linear:
        return Linear(channels, classes, self.features)
