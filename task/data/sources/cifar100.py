"""CIFAR-100: 60,000 images of 100 classes, 32x32; 10,000 of them are the test set.

Source: A. Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009.
"""

from dataclasses import dataclass
from typing import ClassVar

from task.data.sources.families.torchvision_source import Reader, TorchvisionSource, as_reader


@dataclass
class Cifar100(TorchvisionSource):
    """CIFAR-100 in its Python version, ``cifar-100-python``, with the fine labels."""

    folder: ClassVar = "cifar-100-python"
    mean: ClassVar = (0.5071, 0.4865, 0.4409)
    std: ClassVar = (0.2673, 0.2564, 0.2762)

    def part(self, train: bool, download: bool) -> tuple[Reader, list[int]]:
        from torchvision.datasets import CIFAR100  # noqa: PLC0415  (see TorchvisionSource.part)

        dataset = CIFAR100(self.root, train=train, download=download)
        return as_reader(dataset), dataset.targets
