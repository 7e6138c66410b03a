"""What all peers share: the network, the images in two layouts, the augmentation.

``kindest``: a client's images are one normalised tensor, channels last, and our vectorised function
crops and flips a whole batch. ``own``: what the peer's users write. The tensor is NCHW where the
peer takes tensors; a dataset applies torchvision's transforms to one image at a time where the peer
takes a loader.
"""

from collections.abc import Sequence
from typing import Any, Literal

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler, TensorDataset
from torchvision.transforms import v2

from benchmarks.bare_loop import CLASSES, FEATURES, PADDING, Work, cropped
from task.models.cnn import Cnn

Layout = Literal["kindest", "own"]


class Logits(nn.Module):
    """The bare loop's network, returning only its logits."""

    def __init__(self) -> None:
        super().__init__()
        self.cnn = Cnn(3, CLASSES, FEATURES)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.cnn(images).logits
        return logits


def tensors(work: Work, positions: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
    """Return a client's images, normalised float32 [n, 3, H, W], and labels."""
    images = work.images[positions].permute(0, 3, 1, 2).float().mul_(1 / 63.75).sub_(2)
    memory = torch.channels_last if layout == "kindest" else torch.contiguous_format
    return images.contiguous(memory_format=memory), work.labels[positions]


def crop_and_flip(images: Tensor) -> Tensor:
    """Crop and flip each image of a batch, as the bare loop does."""
    padded = F.pad(images.permute(0, 2, 3, 1), (0, 0, *[PADDING] * 4), value=-2)
    return cropped(padded).permute(0, 3, 1, 2)


class OneByOne(Dataset[tuple[Tensor, int]]):
    """A client's images, each transformed by torchvision when it is read."""

    def __init__(self, work: Work, positions: Tensor) -> None:
        self.images = work.images[positions].permute(0, 3, 1, 2).contiguous()
        self.labels = work.labels[positions].tolist()
        self.transform = v2.Compose([
            v2.RandomCrop(self.images.shape[-1], padding=PADDING),
            v2.RandomHorizontalFlip(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize([0.5] * 3, [0.25] * 3),
        ])  # fmt: skip

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.transform(self.images[index]), self.labels[index]


def dataset(work: Work, positions: Tensor, layout: Layout) -> Dataset[Any]:
    """Return a client's images as a dataset for `loader`."""
    if layout == "own":
        return OneByOne(work, positions)
    return TensorDataset(*tensors(work, positions, layout))


def loader(
    data: Dataset[Any], batch_size: int, generator: torch.Generator | None = None
) -> DataLoader[Any]:
    """Return PyTorch's loader, in this process, which shuffles what `dataset` returned.

    A dataset of tensors is indexed and augmented by whole batches.
    """
    if not isinstance(data, TensorDataset):
        return DataLoader(data, batch_size, shuffle=True, generator=generator)
    order = RandomSampler(data, generator=generator)
    batches = BatchSampler(order, batch_size, drop_last=False)
    return DataLoader(data, batch_size=None, sampler=batches, collate_fn=augmented)


def augmented(batch: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Return a batch with cropped and flipped images."""
    images, labels = batch
    return crop_and_flip(images), labels
