"""Handwritten digits: 1,797 real 8x8 images inside scikit-learn, so nothing is downloaded.

Source: E. Alpaydin, C. Kaynak, "Optical Recognition of Handwritten Digits", UCI, 1998 (its test
set). The test set here is a fifth of each class, drawn with a fixed seed.
"""

import importlib.metadata
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from PIL import Image

from task.data.sources.base import DatasetIndex, Source

TEST_SEED = 0
TEST_SHARE = 0.2
BRIGHTEST = 16


@dataclass
class Digits(Source):
    """The digits, in greyscale."""

    channels: ClassVar = 1
    mean: ClassVar = (0.5,)
    std: ClassVar = (0.5,)

    def fingerprint(self) -> str:
        return importlib.metadata.version("scikit-learn")

    def dataset_index(self) -> DatasetIndex:
        # Imported here because it takes two seconds, and is not needed once the store is built.
        from sklearn.datasets import load_digits  # noqa: PLC0415
        from sklearn.model_selection import train_test_split  # noqa: PLC0415

        small, labels = load_digits(return_X_y=True)
        _, held_out = train_test_split(
            np.arange(len(labels)), test_size=TEST_SHARE, random_state=TEST_SEED, stratify=labels
        )
        grey = (small.reshape(-1, 8, 8) * (255 / BRIGHTEST)).round().astype(np.uint8)
        return DatasetIndex(
            classes=tuple(str(digit) for digit in range(10)),
            labels=labels.astype(np.int64),
            test=np.isin(np.arange(len(labels)), held_out),
            read=lambda index: Image.fromarray(grey[index]),
            name=lambda index: f"digit {index}",
            domains=("",),
            domain_of=np.zeros(len(labels), dtype=np.int64),
        )
