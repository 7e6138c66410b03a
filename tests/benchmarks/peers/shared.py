"""What the peers are given alike: the plain network, the images as tensors, the augmentation."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from task.models.cnn import Cnn
from tests.benchmarks.bare_loop import CLASSES, FEATURES, PADDING, Work, cropped


class Logits(nn.Module):
    """The bare loop's network, answering with its logits alone."""

    def __init__(self) -> None:
        super().__init__()
        self.cnn = Cnn(3, CLASSES, FEATURES)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.cnn(images).logits
        return logits


def tensors(work: Work, positions: Tensor) -> tuple[Tensor, Tensor]:
    """A client's images, float32 [n, 3, H, W], normalised, channels last in memory; its labels."""
    images = work.images[positions].permute(0, 3, 1, 2).float().mul_(1 / 63.75).sub_(2)
    return images.contiguous(memory_format=torch.channels_last), work.labels[positions]


def crop_and_flip(images: Tensor) -> Tensor:
    """A batch of such images, each cropped and flipped by itself as in the bare loop."""
    padded = F.pad(images.permute(0, 2, 3, 1), (0, 0, *[PADDING] * 4), value=-2)
    return cropped(padded).permute(0, 3, 1, 2)
