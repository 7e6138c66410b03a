"""STL-10: 5,000 training and 8,000 test images of ten classes, 96x96.

The unlabelled images are not used.

Source: A. Coates, H. Lee, A. Ng, "An Analysis of Single-Layer Networks in Unsupervised Feature
Learning", AISTATS 2011.
"""

from dataclasses import dataclass
from typing import ClassVar

from task.data.sources.families.torchvision_source import Reader, TorchvisionSource, as_reader


@dataclass
class Stl10(TorchvisionSource):
    """STL-10 in its binary version, ``stl10_binary``."""

    folder: ClassVar = "stl10_binary"
    mean: ClassVar = (0.4467, 0.4398, 0.4066)
    std: ClassVar = (0.2603, 0.2566, 0.2713)

    def part(self, train: bool, download: bool) -> tuple[Reader, list[int]]:
        from torchvision.datasets import STL10  # noqa: PLC0415  (see TorchvisionSource.part)

        dataset = STL10(self.root, split="train" if train else "test", download=download)
        return as_reader(dataset), dataset.labels.tolist()
