"""SVHN: house numbers from photographs of streets, one digit each, 32x32 in colour.

73,257 training and 26,032 test images of ten classes; the additional images are not used.

Source: Y. Netzer et al., "Reading Digits in Natural Images with Unsupervised Feature Learning",
NIPS Workshop on Deep Learning and Unsupervised Feature Learning, 2011.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from task.data.sources.families.torchvision_source import Reader, TorchvisionSource, as_reader


@dataclass
class Svhn(TorchvisionSource):
    """SVHN in its files ``train_32x32.mat`` and ``test_32x32.mat``, in ``SVHN``."""

    folder: ClassVar = "SVHN"
    mean: ClassVar = (0.4377, 0.4438, 0.4728)
    std: ClassVar = (0.1980, 0.2010, 0.1970)

    def part(self, train: bool, download: bool) -> tuple[Reader, list[int]]:
        from torchvision.datasets import SVHN  # noqa: PLC0415  (see TorchvisionSource.part)

        place = Path(str(self.root), self.folder)
        dataset = SVHN(place, split="train" if train else "test", download=download)
        dataset.classes = [str(digit) for digit in range(10)]
        return as_reader(dataset), dataset.labels.tolist()
