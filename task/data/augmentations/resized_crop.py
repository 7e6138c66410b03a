"""Random resized crop, colour jitter and horizontal flip, as FedAlign's program on ImageNet-200.

The operations and ranges are those of torchvision's ``RandomResizedCrop``, ``ColorJitter`` and
``RandomHorizontalFlip``. Three details differ:

* The crop is a part of the stored image, which is square; torchvision's is one of the original.
* If a crop does not fit, torchvision draws again, up to ten times. Here its longer side is cut.
* torchvision changes brightness, contrast and saturation in a random order; here in this order.
"""

import functools
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812  (PyTorch's own abbreviation)
from torch import Tensor

from task.data.augmentations.base import Augmentation
from task.errors import refuse

LEAST_RATIO, LARGEST_RATIO = 3 / 4, 4 / 3  # width over height of a crop, before it is resized
STEPS = 2**30  # a draw from 0 to 1 is stored as a whole number of steps
GREY = (0.2989, 0.587, 0.114)  # of red, green and blue, as in torchvision


@dataclass
class ResizedCrop(Augmentation):
    """Cut a random part out of each image, resize it, change its colours, and flip half of them.

    Attributes:
        least_area: the smallest share of an image that a crop has, in (0, 1].
        jitter: brightness, contrast and saturation are each changed by a factor from 1 - jitter to
            1 + jitter, in [0, 1].
    """

    least_area: float
    jitter: float

    def __post_init__(self) -> None:
        if not 0 < self.least_area <= 1:
            refuse(self, "least_area", "must be above 0 and at most 1")
        if not 0 <= self.jitter <= 1:
            refuse(self, "jitter", "must be from 0 to 1")

    def draw(self, images: int, generator: torch.Generator) -> Tensor:
        """Return area, ratio, top, left, flip and three colour draws: [images, 8] int64."""
        return torch.randint(STEPS, (images, 8), generator=generator)

    def apply(self, pixels: Tensor, changes: Tensor) -> Tensor:
        draws = changes.to(torch.float32) / STEPS
        x = self._cropped(pixels.permute(0, 3, 1, 2).float(), draws[:, :5])
        factors = 1 + self.jitter * (2 * draws[:, 5:] - 1)
        x = jittered(x, *factors.view(-1, 3, 1, 1, 1).unbind(1))
        return x.round().to(torch.uint8).permute(0, 2, 3, 1)

    def _cropped(self, x: Tensor, draws: Tensor) -> Tensor:
        """Return a resized part of each image [n, C, H, W], by bilinear interpolation."""
        area, ratio, top, left, flip = draws.unbind(1)
        area = self.least_area + (1 - self.least_area) * area
        ratio = LEAST_RATIO * (LARGEST_RATIO / LEAST_RATIO) ** ratio
        width, height = (area * ratio).sqrt().clamp(max=1), (area / ratio).sqrt().clamp(max=1)
        size = x.shape[-1]
        # The middle of each pixel of the result, as a share of the crop's side.
        middles = (torch.arange(size, device=x.device) + 0.5) / size
        across = torch.where(flip.unsqueeze(1) < 0.5, 1 - middles, middles)
        columns = (left * (1 - width)).unsqueeze(1) + width.unsqueeze(1) * across
        rows = (top * (1 - height)).unsqueeze(1) + height.unsqueeze(1) * middles
        grid = torch.stack(
            [
                columns.unsqueeze(1).expand(-1, size, -1),
                rows.unsqueeze(2).expand(-1, -1, size),
            ],
            dim=3,
        )
        return F.grid_sample(x, 2 * grid - 1, padding_mode="border", align_corners=False)


def jittered(x: Tensor, brightness: Tensor, contrast: Tensor, saturation: Tensor) -> Tensor:
    """Return images [n, C, H, W] from 0 to 255 with changed colours.

    Args:
        x: the images; with one channel, saturation changes nothing.
        brightness: the factor of each image, [n, 1, 1, 1].
        contrast: likewise; the distance from the image's mean grey is scaled.
        saturation: likewise; the distance from each pixel's grey is scaled.
    """
    x = (x * brightness).clamp(0, 255)
    x = blended(x, grey(x).mean(dim=(1, 2, 3), keepdim=True), contrast)
    return blended(x, grey(x), saturation) if x.shape[1] == len(GREY) else x


def blended(x: Tensor, other: Tensor, factor: Tensor) -> Tensor:
    """Return ``factor`` of `x` and ``1 - factor`` of `other`, from 0 to 255."""
    return (other + factor * (x - other)).clamp(0, 255)


def grey(x: Tensor) -> Tensor:
    """Return the greyscale of images [n, C, H, W] as [n, 1, H, W]."""
    if x.shape[1] != len(GREY):
        return x.mean(dim=1, keepdim=True)
    return (x * grey_weights(x.device)).sum(dim=1, keepdim=True)


@functools.cache
def grey_weights(device: torch.device) -> Tensor:
    """Return the share of each colour in grey, [1, 3, 1, 1]; a copy to a GPU waits for it."""
    return torch.tensor(GREY, device=device).view(1, -1, 1, 1)
