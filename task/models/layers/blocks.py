"""Residual blocks (He et al., CVPR 2016), from torchvision's, and stages of them.

StochDepth drops blocks, PAN encodes positions in them, and feature levels are taken before their
last ReLU.
"""

from functools import partial

import torch.nn.functional as F  # noqa: N812  (PyTorch's own abbreviation)
from torch import Tensor, nn
from torchvision.models.resnet import BasicBlock, Bottleneck

from task.models.base import Encoding, activation, positions
from task.models.layers.norm import Norm, norm_2d
from task.models.layers.position import Position


class Droppable(nn.Module):
    """A residual block that can be dropped.

    Attributes:
        branch: the factor of the residual branch in training; 0 drops the block.
        position: the position encoding of the branch's output, if there is one.
    """

    branch: float = 1.0
    conv1: nn.Module
    bn1: nn.Module
    conv2: nn.Module
    bn2: nn.BatchNorm2d | nn.GroupNorm
    relu: nn.Module
    downsample: nn.Module | None
    position: Position | None

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
        if self.position is not None:
            branch = self.position(branch)
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


def stage(
    block: type[Basic] | type[Bottle],
    inputs: int,
    blocks: int,
    planes: int,
    stride: int,
    norm: Norm,
    encoding: Encoding | None = None,
) -> nn.Sequential:
    """Return one stage of blocks; the first block changes the resolution and the channels."""
    layer = partial(norm_2d, norm)
    outputs = planes * block.expansion
    downsample = None
    if stride != 1 or inputs != outputs:
        convolution = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
        downsample = nn.Sequential(convolution, layer(outputs), *positions(outputs, encoding))
    first = block(inputs, planes, stride, downsample, norm_layer=layer)
    made = [first, *(block(outputs, planes, norm_layer=layer) for _ in range(blocks - 1))]
    for each in made:
        each.relu = activation(planes, encoding)
        each.position = None if encoding is None else Position(outputs, encoding)
    return nn.Sequential(*made)


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
