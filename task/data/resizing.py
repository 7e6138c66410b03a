"""The resizing of images that are not square, as tensors; `decode` does the same with Pillow."""

import torch
import torch.nn.functional as F  # noqa: N812  (PyTorch's own abbreviation)
from torch import Tensor

from task.data.sources.base import Resize


def resized(images: Tensor, size: int, resize: Resize) -> Tensor:
    """Return images [n, C, h, w], float32, resized to [n, C, size, size] without rounding.

    All operations are on tensors, so that an exported graph takes any height and width.

    Args:
        images: from 0 to 255.
        size: height and width of the result, in pixels.
        resize: as in `task.data.sources.base.Source`.
    """
    if resize == "squash":
        return F.interpolate(images, (size, size), mode="bilinear", antialias=True)
    height, width = (
        torch.ones(length, dtype=torch.float64, device=images.device) for length in images.shape[2:]
    )
    rows = weights(height, width.sum(), size, resize)
    columns = weights(width, height.sum(), size, resize)
    return rows @ images @ columns.T


def weights(ones: Tensor, other: Tensor, size: int, resize: Resize) -> Tensor:
    """Return the weight [size, length] of each input pixel in each output pixel, along one side.

    Args:
        ones: [length], float64; only its length counts.
        other: the length of the other side.
        size: the number of output pixels.
        resize: "crop" or "pad".
    """
    length = ones.sum()
    if resize == "crop":  # the middle of the longer side fills the output
        taken = torch.minimum(length, other)
        first, begin, filled = torch.floor((length - taken) / 2), 0.0 * length, 0.0 * length + size
    else:  # the whole side fills the middle of the output
        longest = torch.maximum(length, other)
        filled = torch.floor((2 * length * size + longest) / (2 * longest)).clamp(min=1)
        taken, first, begin = length, 0.0 * length, torch.floor((size - filled) / 2)
    scale = taken / filled
    pixel = (ones.cumsum(0) - 0.5)[None, :]
    place = torch.arange(size, dtype=torch.float64, device=ones.device)[:, None] - begin
    centre = first + (place + 0.5) * scale
    triangle = (1 - (pixel - centre).abs() / scale.clamp(min=1)).clamp(min=0)
    inside = (pixel > first) & (pixel < first + taken) & (place >= 0) & (place < filled)
    found = torch.where(inside, triangle, 0.0)
    return (found / found.sum(dim=1, keepdim=True).clamp(min=1e-9)).float()
