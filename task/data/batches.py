"""Images on the training device, normalised, and the batches of an epoch."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from task.config import LastBatch
from task.data.augmentations.base import Augmentation
from task.data.dataset import ImageDataset
from task.models.base import Scaling
from task.seeding import torch_generator

COLOURS = 3  # channels of an image; a vector counts as one pixel for each three numbers


# Features that must not depend on other images are computed in batches of this size, the last one
# filled with copies. A kernel may compute a row in another way in a batch of another size.
BATCH = 64


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


class Standardisation(nn.Module):
    """Compute (v - mean) / std of vectors; a missing number becomes 0, as the mean does.

    Args:
        mean: of each number of a vector.
        std: likewise.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean).view(1, -1, 1, 1))
        self.register_buffer("std", torch.tensor(std).view(1, -1, 1, 1))

    def forward(self, vectors: Tensor) -> Tensor:
        """Return vectors [n, 1, 1, C] as [n, C, 1, 1], float32."""
        x = (vectors.permute(0, 3, 1, 2) - self.mean) / self.std
        return x.nan_to_num(0.0)


def input_layer(vectors: bool, mean: Sequence[float], std: Sequence[float]) -> nn.Module:
    """Return what turns pixels, or vectors, into the input of a network."""
    return Standardisation(mean, std) if vectors else Normalisation(mean, std)


class DeviceImages:
    """A whole data set as one tensor on the device, which batches are indexed from.

    On the CPU the tensor is the memory-mapped file of the store, which all processes share.

    Attributes:
        device: the device of the images.
        normalised: turns pixels into the input of a network.
    """

    def __init__(
        self, dataset: ImageDataset, device: torch.device, scaling: Scaling | None = None
    ) -> None:
        self.device = device
        self._images = torch.from_numpy(dataset.images).to(device)
        targets = dataset.targets
        labels = dataset.labels if targets is None else targets.astype(np.float32)
        self._labels = torch.from_numpy(labels).to(device)
        self._classes = len(dataset.classes)
        mean_and_std = scaling or (dataset.mean, dataset.std)
        self.normalised = input_layer(dataset.vectors, *mean_and_std).to(device)

    def __getitem__(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return normalised images, [n, C, H, W], without augmentation, and their labels, [n]."""
        return self.normalised(self.pixels(positions)), self.labels(positions)

    def pixels(self, positions: Tensor) -> Tensor:
        """Return the pixels at the positions, [n, H, W, C], as the data set has them."""
        return self._images[positions]

    def labels(self, positions: Tensor) -> Tensor:
        """Return the labels at the positions, [n] int64; several of an image as [n, D], 0 or 1."""
        return self._labels[positions]

    def augmented(
        self, positions: Tensor, changes: Tensor, augmentation: Augmentation
    ) -> tuple[Tensor, Tensor]:
        """Return augmented and normalised images, [n, C, H, W], and their labels, [n].

        Args:
            positions: the images, [n] int64.
            changes: what `augmentation` has drawn for each of them, [n, k].
            augmentation: the augmentation.
        """
        pixels = augmentation.apply(self.pixels(positions), changes)
        return self.normalised(pixels), self.labels(positions)

    def counts(self, positions: Tensor) -> Tensor:
        """Return the number of images of each class at the positions, [D] int64."""
        labels = self.labels(positions)
        if labels.ndim == 2:
            return labels.sum(dim=0, dtype=torch.float64).long()
        return torch.bincount(labels, minlength=self._classes)

    def images_per(self, pixels: int) -> int:
        """Return how many images have `pixels` pixels together, at least one."""
        _, height, width, channels = self._images.shape
        return max(1, pixels // (height * width * max(1, channels // COLOURS)))

    def index(self, positions: NDArray[np.int64]) -> Tensor:
        """Return positions as a tensor on the device."""
        return without_waiting(torch.from_numpy(positions), self.device)


def filled(positions: Tensor) -> Tensor:
    """Return `BATCH` positions: those that are given, and copies of the first."""
    return torch.cat([positions, positions[:1].expand(BATCH - len(positions))])


def without_waiting(values: Tensor, device: torch.device) -> Tensor:
    """Return a tensor of the CPU on a device; a GPU copies it from pinned memory by itself."""
    if device.type != "cuda":
        return values.to(device)
    return values.pin_memory().to(device, non_blocking=True)


def epoch_batches(
    positions: Tensor,
    batch_size: int,
    last_batch: LastBatch,
    augmentation: Augmentation,
    key: tuple[int, str, int, int],
    epoch: int,
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the shuffled batches of one epoch as arguments of `DeviceImages.augmented`.

    Args:
        positions: the client's images in the data set.
        batch_size: images per batch; see `training_batches`.
        last_batch: what is done with the remainder; see `training_batches`.
        augmentation: the augmentation of the images.
        key: the experiment's seed, and what makes this client and round unique.
        epoch: from 0.
    """
    order = torch.randperm(len(positions), generator=torch_generator(*key, "order", epoch))
    shuffled = positions[without_waiting(order, positions.device)]
    changes = augmentation.draw(len(positions), torch_generator(*key, "augmentation", epoch))
    return zip(
        training_batches(shuffled, batch_size, last_batch),
        training_batches(without_waiting(changes, positions.device), batch_size, last_batch),
        strict=True,
    )


def largest_batch(batch_size: int) -> int:
    """Return the largest number of rows that `training_batches` puts into one batch."""
    return batch_size + max(1, (batch_size - 1) // 2)


def training_batches(
    order: Tensor, batch_size: int, last_batch: LastBatch = "merge"
) -> list[Tensor]:
    """Cut an epoch's rows into batches.

    ``drop`` leaves the remainder out, as the releases of FedUV and FedAlign do. Fewer rows than a
    batch are one batch, so that every client trains. ``merge`` joins a remainder below half a batch
    to the previous batch. So every image is used, and batch norm never computes statistics of very
    few images, which make the averaged model unstable. On digits with alpha 0.3 and batches of 32,
    separate remainders lower UniVarFL's final accuracy by 24 points (mean of three seeds).
    """
    batches = list(order.split(batch_size))
    if last_batch == "drop":
        return batches[: max(1, len(order) // batch_size)]
    if len(batches) > 1 and (2 * len(batches[-1]) < batch_size or len(batches[-1]) == 1):
        batches[-2:] = [torch.cat(batches[-2:])]
    return batches
