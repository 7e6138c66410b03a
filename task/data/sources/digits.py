"""Handwritten digits: 1,797 real 8x8 images inside scikit-learn, so nothing is downloaded.

Source: E. Alpaydin, C. Kaynak, "Optical Recognition of Handwritten Digits", UCI, 1998 (its test
half). The test set here is a fifth of each class, drawn once with a seed of its own.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from task.data.sources.base import ImageDataset, Source
from task.errors import refuse

TEST_SEED = 0
TEST_SHARE = 0.2
BRIGHTEST = 16


@dataclass
class Digits(Source):
    """The digits, scaled up.

    Attributes:
        image_size: height and width of the scaled image in pixels.
    """

    image_size: int

    def __post_init__(self) -> None:
        if not 8 <= self.image_size <= 512:
            refuse(self, "image_size", "must be from 8 to 512")

    def load(self) -> ImageDataset:
        small, labels = load_digits(return_X_y=True)
        train, test = train_test_split(
            np.arange(len(labels)), test_size=TEST_SHARE, random_state=TEST_SEED, stratify=labels
        )
        grey = (small.reshape(-1, 8, 8) * (255 / BRIGHTEST)).round().astype(np.uint8)
        return ImageDataset(
            images=np.stack([self._scaled(image) for image in grey])[:, None],
            labels=labels.astype(np.int64),
            classes=tuple(str(digit) for digit in range(10)),
            train=np.sort(train),
            test=np.sort(test),
            mean=(0.5,),
            std=(0.5,),
        )

    def _scaled(self, image: NDArray[np.uint8]) -> NDArray[np.uint8]:
        size = (self.image_size, self.image_size)
        return np.asarray(Image.fromarray(image).resize(size, Image.Resampling.BILINEAR))
