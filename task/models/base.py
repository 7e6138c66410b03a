"""The parts that all models share: their output, their settings and their projector."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from torch import Tensor, nn

from task.errors import refuse
from task.models.layers.norm import GROUPS, Norm, norm_1d


class Output(NamedTuple):
    """A network's output for a batch of n images.

    Attributes:
        logits: [n, D], one column per class.
        features: [n, d], the projector's output and the classifier's input.
        maps: [n, C, h, w], the last convolution's output, before pooling.
        stage_input: [n, C', h', w'], the input of the last stage of a residual network; None for
            other networks.
    """

    logits: Tensor
    features: Tensor
    maps: Tensor
    stage_input: Tensor | None = None


@dataclass
class ModelSettings(ABC):
    """The settings of one architecture; builds the network.

    Every network ends in a ``projector`` and a ``classifier``, which is a linear layer.

    Attributes:
        least_image_size: the smallest height and width of an image, in pixels.
        residual: whether the network is a `task.models.layers.residual.ResidualNet`.
        trained_features: whether layers that can be trained come before the classifier.
        normalised: whether it has normalisation layers; if not, `norm` must be ``group``.
        features: d, the width of the projector, at least 1.
        norm: ``batch``, or ``group``, which keeps no statistics of the data.
    """

    least_image_size: ClassVar[int] = 1
    residual: ClassVar[bool] = False
    trained_features: ClassVar[bool] = True
    normalised: ClassVar[bool] = True
    __pydantic_config__: ClassVar = {"extra": "forbid", "allow_inf_nan": False}

    features: int
    norm: Norm

    def __post_init__(self) -> None:
        if self.features < 1:
            refuse(self, "features", "must be at least 1")
        if not self.normalised and self.norm != "group":
            refuse(self, "norm", "must be group: this network has no normalisation")
        if self.normalised and self.norm == "group" and self.features % GROUPS:
            refuse(self, "features", f"must be a multiple of {GROUPS} with model.norm=group")

    @abstractmethod
    def build(self, channels: int, classes: int) -> nn.Module:
        """Return a new network for images of `channels` channels in `classes` classes.

        Its weights are drawn from PyTorch's global CPU generator.
        """


def projector(inputs: int, width: int, norm: Norm) -> nn.Sequential:
    """Return two linear layers, each with normalisation and ReLU (UniVarFL, section 4).

    Maps [n, inputs] to features [n, width].
    """
    return nn.Sequential(
        nn.Linear(inputs, width, bias=False),
        norm_1d(norm, width),
        nn.ReLU(inplace=True),
        nn.Linear(width, width, bias=False),
        norm_1d(norm, width),
        nn.ReLU(inplace=True),
    )
