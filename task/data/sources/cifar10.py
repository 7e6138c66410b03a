"""CIFAR-10: 60,000 images of ten classes, 32x32; its own 10,000 are the test set.

Source: A. Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009.
"""

from dataclasses import dataclass
from typing import ClassVar

from torchvision.datasets import CIFAR10

from task.data.sources.families.packaged import Packaged, Reader, as_reader


@dataclass
class Cifar10(Packaged):
    """The Python version, ``cifar-10-batches-py``."""

    folder: ClassVar = CIFAR10.base_folder
    mean: ClassVar = (0.4914, 0.4822, 0.4465)
    std: ClassVar = (0.2470, 0.2435, 0.2616)

    def part(self, train: bool, download: bool) -> tuple[Reader, list[int]]:
        dataset = CIFAR10(self.root, train=train, download=download)
        return as_reader(dataset), dataset.targets
