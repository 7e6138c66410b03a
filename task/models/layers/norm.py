"""Normalisation layers: batch norm, or group norm, which keeps no statistics of the data."""

from collections.abc import Iterable
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

Norm = Literal["batch", "group"]

GROUPS = 8  # divides every channel count of these models; the smallest is 16


def norm_2d(kind: Norm, channels: int) -> nn.Module:
    """Return the normalisation layer for maps [n, channels, h, w]."""
    return nn.BatchNorm2d(channels) if kind == "batch" else nn.GroupNorm(GROUPS, channels)


def norm_1d(kind: Norm, channels: int) -> nn.Module:
    """Return the normalisation layer for vectors [n, channels]."""
    return nn.BatchNorm1d(channels) if kind == "batch" else nn.GroupNorm(GROUPS, channels)


@torch.no_grad()
def measure_statistics(model: nn.Module, batches: Iterable[Tensor]) -> None:
    """Replace batch norm's statistics by their mean over some batches; weights stay.

    Args:
        model: put into eval mode, its batch norm into training mode.
        batches: images, each [n, C, H, W].
    """
    layers = [layer for layer in model.modules() if isinstance(layer, _BatchNorm)]
    momentum = [layer.momentum for layer in layers]
    model.eval()  # dropped blocks and the like are those of training
    try:
        for layer in layers:
            layer.reset_running_stats()
            layer.train()
        for number, batch in enumerate(batches, start=1):
            for layer in layers:
                layer.momentum = 1 / number  # all batches count the same
            model(batch)
    finally:
        for layer, value in zip(layers, momentum, strict=True):
            layer.momentum = value
