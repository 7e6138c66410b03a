"""The light CNN of UniVarFL and FedUV for STL-10 and PACS.

Eight convolutions with normalisation and ReLU, mean pooling, projector, classifier. The smallest
image is 32x32.
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from task.models.base import (
    Encoding,
    ModelSettings,
    Network,
    Output,
    ProjectorKind,
    activation,
    pooled,
    projector,
)
from task.models.layers.norm import Norm, norm_2d

# (kernel, stride, output channels) of each convolution; none is padded.
LAYERS = (
    (3, 1, 16),
    (1, 1, 16),
    (3, 2, 32),
    (3, 1, 32),
    (1, 1, 32),
    (3, 2, 64),
    (3, 1, 64),
    (1, 1, 64),
)
LEVELS = (1, 4, 7)  # the convolutions that end a resolution


class Cnn(Network):
    """Maps images [n, C, H, W], H and W at least 32, to `Output`; its maps have 64 channels."""

    last_stage: ClassVar = "encoder.15"  # the convolutions of 64 channels

    def __init__(
        self,
        channels: int,
        classes: int,
        features: int,
        norm: Norm = "batch",
        kind: ProjectorKind = "normalised",
        encoding: Encoding | None = None,
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for kernel, stride, width in LAYERS:
            convolution = nn.Conv2d(channels, width, kernel, stride, bias=False)
            layers += [convolution, norm_2d(norm, width), activation(width, encoding)]
            channels = width
        self.encoder = nn.Sequential(*layers)
        self.projector = projector(channels, features, norm, kind, encoding)
        self.classifier = nn.Linear(features if len(self.projector) else channels, classes)

    def forward(self, x: Tensor) -> Output:
        maps, levels = self.through(self.encoder, x, LEVELS)
        features = self.projector(pooled(maps))
        return Output(self.classifier(features), features, maps, levels=levels)


@dataclass
class CnnSettings(ModelSettings):
    """Settings of the light CNN; the papers use 256 features."""

    least_image_size: ClassVar[int] = 32

    def build(self, channels: int, classes: int) -> Cnn:
        return Cnn(channels, classes, self.features, self.norm, self.projector, self.encoding)

    def widths(self) -> set[int]:
        return super().widths() | {width for _, _, width in LAYERS}
