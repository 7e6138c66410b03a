"""The resizing of images that are not square, as tensors; `decode` does the same with Pillow."""

import torch
import torch.nn.functional as F  # noqa: N812  (PyTorch's own abbreviation)
from torch import Tensor

from task.data.sources.base import Interpolation, Resize

CUBIC = -0.5  # the slope of the cubic kernel, as in Pillow


def resized(
    images: Tensor, size: int, resize: Resize, interpolation: Interpolation = "bilinear"
) -> Tensor:
    """Return images [n, C, h, w], float32, resized to [n, C, size, size] without rounding.

    All operations are on tensors, so that an exported graph takes any height and width.

    Args:
        images: from 0 to 255.
        size: height and width of the result, in pixels.
        resize: as in `task.data.sources.base.Source`.
        interpolation: as there; values that ``bicubic`` makes outside 0 to 255 are cut off.
    """
    if (resize, interpolation) == ("squash", "bilinear"):
        return F.interpolate(images, (size, size), mode="bilinear", antialias=True)
    height, width = (
        torch.ones(length, dtype=torch.float64, device=images.device) for length in images.shape[2:]
    )
    rows = weights(height, width.sum(), size, resize, interpolation)
    columns = weights(width, height.sum(), size, resize, interpolation)
    found = rows @ images @ columns.T
    return found if interpolation == "bilinear" else found.clamp(0, 255)


def weights(
    ones: Tensor, other: Tensor, size: int, resize: Resize, interpolation: Interpolation
) -> Tensor:
    """Return the weight [size, length] of each input pixel in each output pixel, along one side.

    Args:
        ones: [length], float64; only its length counts.
        other: the length of the other side.
        size: the number of output pixels.
        resize: as in `task.data.sources.base.Source`.
        interpolation: as there.
    """
    length = ones.sum()
    if resize == "squash":
        taken, first, begin, filled = length, 0.0 * length, 0.0 * length, 0.0 * length + size
    elif resize == "crop":  # the middle of the longer side fills the output
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
    distance = (pixel - centre).abs() / scale.clamp(min=1)
    kernel = cubic(distance) if interpolation == "bicubic" else (1 - distance).clamp(min=0)
    inside = (pixel > first) & (pixel < first + taken) & (place >= 0) & (place < filled)
    found = torch.where(inside, kernel, 0.0)
    return (found / found.sum(dim=1, keepdim=True).clamp(min=1e-9)).float()


def cubic(x: Tensor) -> Tensor:
    """Return the cubic kernel at distances from its centre."""
    near = ((CUBIC + 2) * x - (CUBIC + 3)) * x * x + 1
    far = CUBIC * (((x - 5) * x + 8) * x - 4)
    return torch.where(x < 1, near, torch.where(x < 2, far, 0.0))
