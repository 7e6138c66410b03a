"""Normalisation: by batch, or by groups of channels, which keeps no statistics of the data."""

from typing import Literal

from torch import nn

Norm = Literal["batch", "group"]

GROUPS = 8  # divides every channel count of the models here, 16 being the least


def norm_2d(kind: Norm, channels: int) -> nn.Module:
    """The normalisation of maps [n, channels, h, w]."""
    return nn.BatchNorm2d(channels) if kind == "batch" else nn.GroupNorm(GROUPS, channels)


def norm_1d(kind: Norm, channels: int) -> nn.Module:
    """The normalisation of vectors [n, channels]."""
    return nn.BatchNorm1d(channels) if kind == "batch" else nn.GroupNorm(GROUPS, channels)
