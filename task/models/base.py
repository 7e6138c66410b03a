"""What every model shares: its output, its projector and how it is built."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from torch import Tensor, nn

from task.errors import refuse
from task.models.layers.norm import GROUPS, Norm, norm_1d


class Output(NamedTuple):
    """A model's answer to a batch of n images.

    Attributes:
        logits: [n, D], one column per class.
        features: [n, d], the projector's output, which the classifier reads.
        maps: [n, C, h, w], the last convolution's output, before pooling.
        stage_input: [n, C', h', w'], what the last stage of a residual network was given; None for
            a network without stages.
    """

    logits: Tensor
    features: Tensor
    maps: Tensor
    stage_input: Tensor | None = None


@dataclass
class ModelSettings(ABC):
    """The settings of one architecture, and how to build it.

    Every network has a ``projector`` and, after it, a ``classifier``, a linear layer.

    Attributes:
        least_image_size: height and width below which no image passes through.
        residual: whether it is a `task.models.layers.residual.ResidualNet`.
        features: the projector's width.
        norm: ``batch``, or ``group``, which keeps no statistics of the data.
    """

    least_image_size: ClassVar[int] = 1
    residual: ClassVar[bool] = False
    __pydantic_config__: ClassVar = {"extra": "forbid", "allow_inf_nan": False}

    features: int
    norm: Norm

    def __post_init__(self) -> None:
        if self.features < 1:
            refuse(self, "features", "must be at least 1")
        if self.norm == "group" and self.features % GROUPS:
            refuse(self, "features", f"must be a multiple of {GROUPS} with model.norm=group")

    @abstractmethod
    def build(self, channels: int, classes: int) -> nn.Module:
        """A freshly initialised network for images of `channels` channels and `classes` classes."""


def projector(inputs: int, width: int, norm: Norm) -> nn.Sequential:
    """Two fully connected layers, each with normalisation and ReLU (UniVarFL, section 4)."""
    return nn.Sequential(
        nn.Linear(inputs, width, bias=False),
        norm_1d(norm, width),
        nn.ReLU(inplace=True),
        nn.Linear(width, width, bias=False),
        norm_1d(norm, width),
        nn.ReLU(inplace=True),
    )
