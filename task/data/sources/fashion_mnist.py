"""Fashion-MNIST: 70,000 pictures of clothes in greyscale, 28x28; 10,000 of them are the test set.

Source: H. Xiao, K. Rasul, R. Vollgraf, "Fashion-MNIST: a Novel Image Dataset for Benchmarking
Machine Learning Algorithms", 2017.
"""

from dataclasses import dataclass
from typing import ClassVar

from task.data.sources.families.torchvision_source import Reader, TorchvisionSource, as_reader


@dataclass
class FashionMnist(TorchvisionSource):
    """Fashion-MNIST in its four files, unpacked, in ``FashionMNIST/raw``."""

    folder: ClassVar = "FashionMNIST/raw"
    channels: ClassVar = 1
    mean: ClassVar = (0.2860,)
    std: ClassVar = (0.3530,)

    def part(self, train: bool, download: bool) -> tuple[Reader, list[int]]:
        from torchvision.datasets import FashionMNIST  # noqa: PLC0415  (see TorchvisionSource.part)

        dataset = FashionMNIST(self.root, train=train, download=download)
        return as_reader(dataset), dataset.targets.tolist()
