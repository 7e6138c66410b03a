"""Position encodings of channels: a fixed wave makes the channels of a layer differ.

Source: Li et al., "Federated Learning with Position-Aware Neurons", CVPR 2022 (PAN). It was not
read: the equations are those of the authors' release, github.com/lxcnju/FedPAN
(networks/pe_func.py).

Channel j of J has e_j = sin(2 pi T j / J). A layer's output h becomes h + A e or h (1 + A e),
before its ReLU. All clients have the same encodings, so a channel keeps its place in all of them.
"""

import math

import torch
from torch import Tensor, nn

from task.models.base import Encoding


def wave(width: int, frequency: int) -> Tensor:
    """Return e of a layer of `width` channels, float64; 0 everywhere if `is_silent`."""
    places = torch.arange(width, dtype=torch.float64)
    return torch.sin(2 * math.pi * frequency / width * places)


def is_silent(width: int, frequency: int) -> bool:
    """Return whether the wave is 0 at every channel."""
    return 2 * frequency % width == 0


class Position(nn.Module):
    """Adds A e to its input [n, J] or [n, J, h, w], or multiplies it by 1 + A e.

    The encoding is neither sent nor saved, so a model has the same tensors with it and without.
    In a narrower network each channel keeps its value; see `task.models.layers.narrow`.

    Args:
        width: J.
        encoding: its kind, frequency and amplitude.
    """

    vector: Tensor

    def __init__(self, width: int, encoding: Encoding) -> None:
        super().__init__()
        self.multiplies = encoding.kind == "multiply"
        vector = encoding.amplitude * wave(width, encoding.frequency) + self.multiplies
        self.register_buffer("vector", vector.float(), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        vector = self.vector[:, None, None] if x.dim() == 4 else self.vector
        # bfloat16 would round 1 + A e to two digits, so only the result is rounded.
        return (x * vector if self.multiplies else x + vector).to(x.dtype)
