"""A model of this package, and a network for ``model=module``."""

from dataclasses import dataclass

from torch import Tensor, nn

from univarfl.extend import ModelSettings, Network, Output


class TwoBlocks(Network):
    """Two convolutions and a classifier."""

    def __init__(self, channels: int, classes: int, features: int) -> None:
        super().__init__()
        self.encoder = blocks(channels, features)
        self.classifier = nn.Linear(features, classes)

    def forward(self, x: Tensor) -> Output:
        features = self.encoder(x)
        return Output(self.classifier(features), features, None)


@dataclass
class TwoBlocksSettings(ModelSettings):
    """Settings of the network."""

    def build(self, channels: int, classes: int) -> TwoBlocks:
        return TwoBlocks(channels, classes, self.features)


def blocks(channels: int, width: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels, 8, 3, 2), nn.BatchNorm2d(8), nn.ReLU(),
        nn.Conv2d(8, width, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
    )  # fmt: skip


class Plain(nn.Module):
    """A network as people write it: it ends in class scores."""

    def __init__(self) -> None:
        super().__init__()
        self.body = blocks(3, 16)
        self.drop = nn.Dropout(0.5)
        self.fc = nn.Linear(16, 1000)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.fc(self.drop(self.body(x)))
        return scores


def number() -> int:
    return 1


def maps() -> nn.Module:
    return nn.Conv2d(3, 8, 3)
