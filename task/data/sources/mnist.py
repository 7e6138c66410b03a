"""MNIST: 70,000 handwritten digits in greyscale, 28x28; 10,000 of them are the test set.

Source: Y. LeCun, L. Bottou, Y. Bengio, P. Haffner, "Gradient-Based Learning Applied to Document
Recognition", Proceedings of the IEEE, 1998.
"""

from dataclasses import dataclass
from typing import ClassVar

from task.data.sources.families.torchvision_source import Reader, TorchvisionSource, as_reader


@dataclass
class Mnist(TorchvisionSource):
    """MNIST in its four files, unpacked, in ``MNIST/raw``."""

    folder: ClassVar = "MNIST/raw"
    channels: ClassVar = 1
    mean: ClassVar = (0.1307,)
    std: ClassVar = (0.3081,)

    def part(self, train: bool, download: bool) -> tuple[Reader, list[int]]:
        from torchvision.datasets import MNIST  # noqa: PLC0415  (see TorchvisionSource.part)

        dataset = MNIST(self.root, train=train, download=download)
        return as_reader(dataset), dataset.targets.tolist()
