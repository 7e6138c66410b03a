"""What all peers share: the network, the images as tensors, the augmentation."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from benchmarks.bare_loop import CLASSES, FEATURES, PADDING, Work, cropped
from task.models.cnn import Cnn


class Logits(nn.Module):
    """The bare loop's network, returning only its logits."""

    def __init__(self) -> None:
        super().__init__()
        self.cnn = Cnn(3, CLASSES, FEATURES)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.cnn(images).logits
        return logits


def tensors(work: Work, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Return a client's images, normalised float32 [n, 3, H, W] in channels last, and labels."""
    images = work.images[positions].permute(0, 3, 1, 2).float().mul_(1 / 63.75).sub_(2)
    return images.contiguous(memory_format=torch.channels_last), work.labels[positions]


def crop_and_flip(images: Tensor) -> Tensor:
    """Crop and flip each image of a batch, as the bare loop does."""
    padded = F.pad(images.permute(0, 2, 3, 1), (0, 0, *[PADDING] * 4), value=-2)
    return cropped(padded).permute(0, 3, 1, 2)
