"""Residual networks (He et al., CVPR 2016), from torchvision's blocks.

They end in a projector and a classifier. StochDepth drops their blocks,
GradAug runs the whole network at a smaller width, and FedAlign only its last stage.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple

import torch.nn.functional as F  # noqa: N812  (PyTorch's own abbreviation)
from torch import Tensor, nn
from torch.func import functional_call
from torchvision.models.resnet import BasicBlock, Bottleneck

from task.models.base import ModelSettings, Network, Output, ProjectorKind, pooled, projector
from task.models.layers.narrow import narrow
from task.models.layers.norm import Norm, norm_2d


class Droppable(nn.Module):
    """A residual block that can be dropped.

    Attributes:
        branch: the factor of the residual branch in training; 0 drops the block.
    """

    branch: float = 1.0
    conv1: nn.Module
    bn1: nn.Module
    conv2: nn.Module
    bn2: nn.BatchNorm2d | nn.GroupNorm
    relu: nn.Module
    downsample: nn.Module | None

    def residual(self, x: Tensor) -> Tensor:
        """Return the residual branch's output, before the sum with the shortcut."""
        raise NotImplementedError

    @property
    def last_norm(self) -> nn.BatchNorm2d | nn.GroupNorm:
        """The last normalisation layer of the branch."""
        raise NotImplementedError

    def before_relu(self, x: Tensor) -> Tensor:
        """Return the sum of branch and shortcut, the input of the block's last ReLU."""
        scale = self.branch if self.training else 1.0
        shortcut = x if self.downsample is None else self.downsample(x)
        if scale == 0:
            return shortcut
        branch = self.residual(x)
        return (branch if scale == 1 else branch * scale) + shortcut

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.before_relu(x))


class Basic(Droppable, BasicBlock):
    """torchvision's basic block: two 3x3 convolutions."""

    def residual(self, x: Tensor) -> Tensor:
        inner: Tensor = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return inner

    @property
    def last_norm(self) -> nn.BatchNorm2d | nn.GroupNorm:
        return self.bn2


class Bottle(Droppable, Bottleneck):
    """torchvision's bottleneck block: a 1x1, a 3x3 and a 1x1 convolution."""

    conv3: nn.Module
    bn3: nn.BatchNorm2d | nn.GroupNorm

    def residual(self, x: Tensor) -> Tensor:
        inner = self.relu(self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x))))))
        outer: Tensor = self.bn3(self.conv3(inner))
        return outer

    @property
    def last_norm(self) -> nn.BatchNorm2d | nn.GroupNorm:
        return self.bn3


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
    """

    def __init__(
        self,
        shape: Shape,
        channels: int,
        classes: int,
        features: int,
        norm: Norm,
        kind: ProjectorKind,
    ) -> None:
        super().__init__()
        width, kernel, stride = shape.stem
        stem = nn.Conv2d(channels, width, kernel, stride, kernel // 2, bias=False)
        self.stem = nn.Sequential(stem, norm_2d(norm, width), nn.ReLU(inplace=True))
        if shape.max_pool:
            self.stem.append(nn.MaxPool2d(3, 2, 1))
        self.stages = nn.Sequential()
        block, channels = shape.block, width
        for blocks, planes, stride in shape.stages:
            self.stages.append(stage(block, channels, blocks, planes, stride, norm))
            channels = planes * block.expansion
        self.projector = projector(channels, features, norm, kind)
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
            self.shape(), channels, classes, self.features, self.norm, self.projector
        )


def stage(
    block: type[Basic] | type[Bottle],
    inputs: int,
    blocks: int,
    planes: int,
    stride: int,
    norm: Norm,
) -> nn.Sequential:
    """Return one stage of blocks; the first block changes the resolution and the channels."""
    layer = partial(norm_2d, norm)
    outputs = planes * block.expansion
    downsample = None
    if stride != 1 or inputs != outputs:
        convolution = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
        downsample = nn.Sequential(convolution, layer(outputs))
    first = block(inputs, planes, stride, downsample, norm_layer=layer)
    return nn.Sequential(
        first, *(block(outputs, planes, norm_layer=layer) for _ in range(blocks - 1))
    )


def initialise(module: nn.Module) -> None:
    """Draw a layer's weights as torchvision does, and start a block's branch at 0.

    This is torchvision's ``zero_init_residual`` (Goyal et al., arXiv:1706.02677): a new resnet56
    starts as a shallow network. Its first gradient then has norm 6 instead of 113. FedAlign's
    clipping at 10 would cut the latter to a tenth during most of a short schedule.
    """
    if isinstance(module, nn.Conv2d):
        nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    if isinstance(module, Droppable):
        nn.init.zeros_(module.last_norm.weight)
