"""Compare our input pipeline with per-image transforms in a DataLoader, in images per second.

    uv run python -m benchmarks.pipeline                                  (two minutes)

One client's epoch over random images in batches of 64, cropped with a padding of 4, flipped and
normalised. Ours is `task.data.batches.epoch_batches` on one and on two threads. The other is
torchvision's transforms on PIL images through a `DataLoader`, without workers and with two
persistent ones. The pipelines take turns; the numbers are medians.
"""

import statistics
import time
from collections.abc import Callable, Iterable

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

from task.data.augmentations.crop_flip import CropFlip
from task.data.batches import DeviceImages, epoch_batches
from task.data.dataset import ImageDataset
from task.training.device import keep_freed_memory

BATCH, REPEATS = 64, 7
SIZES = ((32, 10_000), (96, 2_000))  # pixels, and how many images


class PerImage(Dataset[tuple[Tensor, int]]):
    """The usual data set: one image at a time, through PIL."""

    def __init__(self, data: ImageDataset) -> None:
        size = data.images.shape[1]
        self._images = [Image.fromarray(image) for image in data.images]
        self._labels = data.labels.tolist()
        self._transform = transforms.Compose(
            [
                transforms.RandomCrop(size, padding=4),
                transforms.RandomHorizontalFlip(),
                transforms.ToTensor(),
                transforms.Normalize(data.mean, data.std),
            ]
        )

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self._transform(self._images[index]), self._labels[index]


def seconds(batches: Callable[[], Iterable[tuple[Tensor, Tensor]]]) -> float:
    """Return the seconds of one epoch."""
    started = time.perf_counter()
    for _ in batches():
        pass
    return time.perf_counter() - started


def measure(size: int, count: int) -> dict[str, float]:
    """Return each pipeline's images per second, the median of its epochs."""
    data = made(size, count)
    images, positions = DeviceImages(data, torch.device("cpu")), torch.arange(count)
    augmentation = CropFlip(padding=4)

    def ours(threads: int) -> Iterable[tuple[Tensor, Tensor]]:
        torch.set_num_threads(threads)
        key = (0, "pipeline", 1, 0)
        batches = epoch_batches(positions, BATCH, "merge", augmentation, key, 0)
        return (images.augmented(*batch, augmentation) for batch in batches)

    plain = DataLoader(PerImage(data), BATCH, shuffle=True)
    helped = DataLoader(PerImage(data), BATCH, shuffle=True, num_workers=2, persistent_workers=True)
    contestants: dict[str, Callable[[], Iterable[tuple[Tensor, Tensor]]]] = {
        "ours, 1 thread": lambda: ours(1),
        "ours, 2 threads": lambda: ours(2),
        "per image, no workers": lambda: plain,
        "per image, 2 persistent workers": lambda: helped,
    }
    found: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(1 + REPEATS):
        for name, contestant in contestants.items():
            found[name].append(count / seconds(contestant))
    return {name: statistics.median(values[1:]) for name, values in found.items()}


def made(size: int, count: int) -> ImageDataset:
    """Return random images, all of them for training."""
    generator = np.random.default_rng(0)
    return ImageDataset(
        version="made",
        content="made",
        images=generator.integers(0, 256, (count, size, size, 3), dtype=np.uint8),
        labels=generator.integers(0, 10, count),
        domain_of=np.zeros(count, np.int64),
        classes=tuple(map(str, range(10))),
        domains=("",),
        train=np.arange(count),
        test=np.arange(0),
        mean=(0.5, 0.5, 0.5),
        std=(0.25, 0.25, 0.25),
        skipped=(),
        notes=(),
    )


def main() -> None:
    """Print the table."""
    keep_freed_memory()
    found = [measure(size, count) for size, count in SIZES]
    heads = " | ".join(f"{size}x{size}" for size, _ in SIZES)
    print(f"| images per second | {heads} |\n|---|{'---|' * len(SIZES)}")
    for name in found[0]:
        print(f"| {name} | {' | '.join(f'{column[name]:,.0f}' for column in found)} |")


if __name__ == "__main__":
    main()
