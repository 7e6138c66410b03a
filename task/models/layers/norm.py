"""Normalisation layers: batch norm, or group norm, which keeps no statistics of the data."""

from typing import Literal

from torch import nn

Norm = Literal["batch", "group"]

GROUPS = 8  # divides every channel count of these models; the smallest is 16


def norm_2d(kind: Norm, channels: int) -> nn.Module:
    """Return the normalisation layer for maps [n, channels, h, w]."""
    return nn.BatchNorm2d(channels) if kind == "batch" else nn.GroupNorm(GROUPS, channels)


def norm_1d(kind: Norm, channels: int) -> nn.Module:
    """Return the normalisation layer for vectors [n, channels]."""
    return nn.BatchNorm1d(channels) if kind == "batch" else nn.GroupNorm(GROUPS, channels)
