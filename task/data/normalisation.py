"""Normalisation of stored pixels to the input of a network."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class Normalisation(nn.Module):
    """Compute (v / 255 - mean) / std as one multiplication and one addition.

    Args:
        mean: per channel, of images scaled to [0, 1].
        std: per channel, of images scaled to [0, 1].
    """

    scale: Tensor
    shift: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        deviation = torch.tensor(std).view(1, -1, 1, 1)
        self.register_buffer("scale", 1 / (255 * deviation))
        self.register_buffer("shift", -torch.tensor(mean).view(1, -1, 1, 1) / deviation)

    def forward(self, pixels: Tensor) -> Tensor:
        """Return pixels [n, H, W, C] uint8 as [n, C, H, W] float32, channels last in memory."""
        x = pixels.permute(0, 3, 1, 2).to(torch.float32, copy=True)
        x = x.mul_(self.scale).add_(self.shift)
        return x.contiguous(memory_format=torch.channels_last)
