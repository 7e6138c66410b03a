"""What every model shares: its output, its projector and how it is built."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from torch import Tensor, nn


class Output(NamedTuple):
    """A model's answer to a batch of n images.

    Attributes:
        logits: [n, D], one column per class.
        features: [n, d], the projector's output, which the classifier reads.
        maps: [n, C, h, w], the last convolution's output, before pooling.
    """

    logits: Tensor
    features: Tensor
    maps: Tensor


@dataclass
class ModelSettings(ABC):
    """The settings of one architecture, and how to build it.

    Attributes:
        least_image_size: height and width below which no image passes through.
    """

    least_image_size: ClassVar[int] = 1
    __pydantic_config__: ClassVar = {"extra": "forbid", "allow_inf_nan": False}

    @abstractmethod
    def build(self, channels: int, classes: int) -> nn.Module:
        """A freshly initialised network for images of `channels` channels and `classes` classes."""


def projector(inputs: int, width: int) -> nn.Sequential:
    """Two fully connected layers, each with batch norm and ReLU (UniVarFL, section 4)."""
    return nn.Sequential(
        nn.Linear(inputs, width, bias=False),
        nn.BatchNorm1d(width),
        nn.ReLU(inplace=True),
        nn.Linear(width, width, bias=False),
        nn.BatchNorm1d(width),
        nn.ReLU(inplace=True),
    )
