"""CIFAR-10: 60,000 images of ten classes, 32x32; 10,000 of them are the test set.

Source: A. Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009.
"""

from dataclasses import dataclass
from typing import ClassVar

from task.data.sources.families.torchvision_source import Reader, TorchvisionSource, as_reader


@dataclass
class Cifar10(TorchvisionSource):
    """CIFAR-10 in its Python version, ``cifar-10-batches-py``."""

    folder: ClassVar = "cifar-10-batches-py"
    mean: ClassVar = (0.4914, 0.4822, 0.4465)
    std: ClassVar = (0.2470, 0.2435, 0.2616)

    def part(self, train: bool, download: bool) -> tuple[Reader, list[int]]:
        from torchvision.datasets import CIFAR10  # noqa: PLC0415  (see TorchvisionSource.part)

        dataset = CIFAR10(self.root, train=train, download=download)
        return as_reader(dataset), dataset.targets
