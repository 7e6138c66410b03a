"""Linear layers with an activation between them, for vectors: a multilayer perceptron."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor, nn

from task.errors import refuse
from task.models.base import ModelSettings, Network, Output

Activation = Literal["relu", "tanh", "gelu"]
ACTIVATIONS: dict[Activation, type[nn.Module]] = {
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "gelu": nn.GELU,
}
MOST_LAYERS, WIDEST = 50, 65_536


class Mlp(Network):
    """Maps vectors [n, C, 1, 1] to `Output`; each hidden layer is a level."""

    def __init__(
        self, inputs: int, classes: int, widths: Sequence[int], kind: Activation = "relu"
    ) -> None:
        super().__init__()
        layers = [
            nn.Linear(before, after)
            for before, after in zip([inputs, *widths], widths, strict=False)
        ]
        self.hidden = nn.ModuleList(layers)
        self.activation = ACTIVATIONS[kind]()
        self.classifier = nn.Linear(widths[-1], classes)

    def forward(self, x: Tensor) -> Output:
        features, levels = x.flatten(1), []
        for layer in self.hidden:
            before = layer(features)
            if self.collects:
                levels.append(before)
            features = self.activation(before)
        maps = features[:, :, None, None]
        return Output(self.classifier(features), features, maps, levels=tuple(levels))


@dataclass
class MlpSettings(ModelSettings):
    """Settings of the multilayer perceptron; `features` is the width of its last hidden layer.

    Attributes:
        hidden: the widths of the layers before that one.
        activation: what follows each hidden layer.
    """

    normalised: ClassVar = False
    takes_images: ClassVar = False
    takes_vectors: ClassVar = True

    hidden: list[int]
    activation: Activation

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.hidden) >= MOST_LAYERS:
            refuse(self, "hidden", f"must be fewer than {MOST_LAYERS} widths")
        if not all(1 <= width <= WIDEST for width in self.widths()):
            refuse(self, "hidden", f"each width must be from 1 to {WIDEST}")

    def build(self, channels: int, classes: int) -> Mlp:
        return Mlp(channels, classes, [*self.hidden, self.features], self.activation)

    def widths(self) -> set[int]:
        return {*self.hidden, self.features}
