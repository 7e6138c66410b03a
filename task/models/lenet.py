"""LeNet-5 with ReLU and max-pooling: a small network without normalisation.

Y. LeCun et al., "Gradient-Based Learning Applied to Document Recognition", Proceedings of the IEEE,
1998, in the form that McMahan's followers and Flower's baseline ``niid_bench`` train on MNIST and
CIFAR-10: two 5x5 convolutions of 6 and 16 channels, and three linear layers. For images of 28x28 in
grey and ten classes it has 44,426 parameters, and for 32x32 in colour with ``map_size=5`` 62,006.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from task.errors import refuse
from task.models.base import Encoding, ModelSettings, Network, Output, activation

FIRST, MAPS, HIDDEN = 6, 16, 120
LEVELS = (0, 1)  # both convolutions end a resolution


class LeNet(Network):
    """Maps images [n, C, H, W] to `Output`; its projector is the first two linear layers."""

    last_stage: ClassVar = "encoder.3"  # the second convolution

    def __init__(
        self,
        channels: int,
        classes: int,
        features: int,
        map_size: int,
        encoding: Encoding | None = None,
    ) -> None:
        super().__init__()
        self.map_size = map_size
        self.encoder = nn.Sequential(
            nn.Conv2d(channels, FIRST, 5), activation(FIRST, encoding), nn.MaxPool2d(2),
            nn.Conv2d(FIRST, MAPS, 5), activation(MAPS, encoding), nn.MaxPool2d(2),
        )  # fmt: skip
        self.projector = nn.Sequential(
            nn.Linear(MAPS * map_size**2, HIDDEN), activation(HIDDEN, encoding),
            nn.Linear(HIDDEN, features), activation(features, encoding),
        )  # fmt: skip
        self.classifier = nn.Linear(features, classes)

    def forward(self, x: Tensor) -> Output:
        maps, levels = self.through(self.encoder, x, LEVELS)
        fits = maps.shape[-2:] == (self.map_size, self.map_size)
        pooled = maps if fits else mean_pooled(maps, self.map_size)
        features = self.projector(pooled.flatten(1))
        return Output(self.classifier(features), features, maps, levels=levels)


def mean_pooled(maps: Tensor, size: int) -> Tensor:
    """Return means of maps [n, c, H, W] over size x size areas that cover them.

    The areas are those of PyTorch's adaptive pooling, whose gradient on a GPU is not deterministic.
    """
    height, width = (areas(length, size, maps) for length in maps.shape[-2:])
    return height @ maps @ width.T


def areas(length: int, parts: int, like: Tensor) -> Tensor:
    """Return the matrix [parts, length] whose rows take the means over equal parts of a line.

    Args:
        length: of the line.
        parts: their number; neighbours overlap if it does not divide the length.
        like: has the matrix's device and type.
    """
    part = torch.arange(parts, device=like.device)
    starts, ends = part * length // parts, -((part + 1) * -length // parts)
    place = torch.arange(length, device=like.device)
    inside = (starts[:, None] <= place) & (place < ends[:, None])
    return (inside / inside.sum(dim=1, keepdim=True)).to(like.dtype)


@dataclass
class LeNetSettings(ModelSettings):
    """Settings of LeNet-5.

    Attributes:
        map_size: height and width of the maps that enter the linear layers: 4 for images of 28x28,
            5 for 32x32. Maps of another size are pooled to it.
    """

    least_image_size: ClassVar = 16
    normalised: ClassVar = False

    map_size: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.map_size <= 64:
            refuse(self, "map_size", "must be from 1 to 64")

    def build(self, channels: int, classes: int) -> LeNet:
        return LeNet(channels, classes, self.features, self.map_size, self.encoding)

    def widths(self) -> set[int]:
        return {FIRST, MAPS, HIDDEN, self.features}
