"""One linear layer on the pixels: multinomial logistic regression.

It has no hidden layer: its features are the pixels, pooled to a fixed size. On MNIST it has 7,850
parameters, so that noise for privacy of whole clients leaves it some accuracy.

FLUTE and FedML pass the logits through a sigmoid before the cross-entropy in their race on MNIST
(microsoft/msrflute, experiments/cv_lr_mnist); ``model.sigmoid=true`` does the same. The logits are
then in (0, 1), so the loss stays high and training is slower.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch.nn.functional as F  # noqa: N812  (PyTorch's own abbreviation)
from torch import Tensor, nn

from task.errors import refuse
from task.models.base import ModelSettings, Network, Output


class Linear(Network):
    """Maps images [n, C, H, W] to `Output`; its maps are the pooled images."""

    def __init__(self, channels: int, classes: int, features: int, sigmoid: bool = False) -> None:
        super().__init__()
        self.sigmoid = sigmoid
        self.size = math.isqrt(features)
        self.classifier = nn.Linear(channels * features, classes)

    def forward(self, x: Tensor) -> Output:
        # Pooling images of the right size would copy them, slowly.
        fits = x.shape[-2:] == (self.size, self.size)
        maps = x if fits else F.adaptive_avg_pool2d(x, self.size)
        features = maps.flatten(1)
        logits = self.classifier(features)
        return Output(logits.sigmoid() if self.sigmoid else logits, features, maps)


@dataclass
class LinearSettings(ModelSettings):
    """Settings of the linear model; ``features`` counts the pixels of a pooled channel.

    Attributes:
        sigmoid: whether the logits go through a sigmoid, as in FLUTE's and FedML's model.
    """

    takes_vectors: ClassVar = True
    trained_features: ClassVar = False
    normalised: ClassVar = False

    sigmoid: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if math.isqrt(self.features) ** 2 != self.features:
            refuse(self, "features", "must be a square number, such as 784 for 28x28 pixels")

    def build(self, channels: int, classes: int) -> Linear:
        return Linear(channels, classes, self.features, self.sigmoid)
