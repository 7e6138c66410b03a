"""Residual networks (He et al., CVPR 2016), from torchvision's blocks.

They end in a projector and a classifier. StochDepth drops their blocks,
GradAug runs the whole network at a smaller width, and FedAlign only its last stage.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch.nn.functional as F  # noqa: N812  (PyTorch's own abbreviation)
from torch import Tensor, nn
from torch.func import functional_call

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
from task.models.layers.blocks import Basic, Bottle, Droppable, initialise, stage
from task.models.layers.narrow import narrow
from task.models.layers.norm import Norm, norm_2d


class Shape(NamedTuple):
    """The sizes of a residual network.

    Attributes:
        stem: the first convolution's output channels, kernel and stride; normalisation and ReLU
            follow it.
        block: the kind of residual block.
        stages: for each stage, the number of blocks, their planes and the first block's stride.
        max_pool: whether a max-pooling of 3x3 at stride 2 ends the stem.
    """

    stem: tuple[int, int, int]
    block: type[Basic | Bottle]
    stages: Sequence[tuple[int, int, int]]
    max_pool: bool = False


class ResidualNet(Network):
    """Maps images [n, C, H, W] to `Output`; its levels are the stem's and each stage's.

    Args:
        shape: the sizes of its layers.
        channels: of the images.
        classes: the number of classes.
        features: the width of the projector.
        norm: the normalisation of all layers.
        kind: the kind of projector.
        encoding: the position encoding of all layers, if there is one.
    """

    def __init__(
        self,
        shape: Shape,
        channels: int,
        classes: int,
        features: int,
        norm: Norm,
        kind: ProjectorKind,
        encoding: Encoding | None = None,
    ) -> None:
        super().__init__()
        width, kernel, stride = shape.stem
        stem = nn.Conv2d(channels, width, kernel, stride, kernel // 2, bias=False)
        self.stem = nn.Sequential(stem, norm_2d(norm, width), activation(width, encoding))
        if shape.max_pool:
            self.stem.append(nn.MaxPool2d(3, 2, 1))
        self.stages = nn.Sequential()
        block, channels = shape.block, width
        for blocks, planes, stride in shape.stages:
            self.stages.append(stage(block, channels, blocks, planes, stride, norm, encoding))
            channels = planes * block.expansion
        self.projector = projector(channels, features, norm, kind, encoding)
        self.classifier = nn.Linear(features if len(self.projector) else channels, classes)
        for part in (self.stem, self.stages):
            part.apply(initialise)

    def forward(self, x: Tensor) -> Output:
        maps, levels = self.through(self.stem, x, (0,))
        stage_input = maps
        for part in self.stages:
            stage_input = maps
            maps, level = self.through_stage(part, stage_input)
            levels += level
        features = self.projector(pooled(maps))
        return Output(self.classifier(features), features, maps, stage_input, levels)

    def through_stage(self, part: nn.Module, x: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return a stage's output, and its level if levels are collected."""
        if not self.collects:
            return part(x), ()
        assert isinstance(part, nn.Sequential)
        last = part[-1]
        assert isinstance(last, Droppable)
        before = last.before_relu(part[:-1](x))
        return F.relu(before), (pooled(before),)

    def blocks(self) -> list[Droppable]:
        """Return every residual block, in the order of the forward pass."""
        return [block for block in self.modules() if isinstance(block, Droppable)]

    def narrower(self, x: Tensor, width: float) -> Output:
        """Return the output with every layer cut to a share of its channels.

        Args:
            x: images [n, C, H, W].
            width: the share of channels, in (0, 1].
        """
        outer = ("classifier.weight", "classifier.bias")
        output: Output = functional_call(self, narrow(self, width, ("stem.0.weight",), outer), (x,))
        return output

    def narrower_last_stage(
        self, stage_input: Tensor, width: float, *, whole_input: bool
    ) -> tuple[Tensor, Tensor]:
        """Return the input and the maps of the last stage, cut to a share of its channels.

        Args:
            stage_input: [n, C', h', w'], not cut.
            width: the share of channels, in (0, 1].
            whole_input: whether the narrow stage reads all channels of its input.
        """
        last = self.stages[-1]
        readers = ("0.conv1.weight", "0.downsample.0.weight")
        state = narrow(last, width, readers if whole_input else ())
        stage_input = stage_input[:, : state[readers[0]].shape[1]]
        maps: Tensor = functional_call(last, state, (stage_input,))
        return stage_input, maps


@dataclass
class ResidualSettings(ModelSettings):
    """The settings of one residual network."""

    residual: ClassVar = True

    @abstractmethod
    def shape(self) -> Shape:
        """Return the sizes of the network."""

    def build(self, channels: int, classes: int) -> ResidualNet:
        return ResidualNet(
            self.shape(), channels, classes, self.features, self.norm, self.projector, self.encoding
        )

    def widths(self) -> set[int]:
        shape = self.shape()
        planes = {planes for _, planes, _ in shape.stages}
        wide = {shape.block.expansion * each for each in planes}
        return super().widths() | {shape.stem[0]} | planes | wide
