"""Generated images, for measuring speed and memory with any number of clients.

Nothing is downloaded. Each class has a random pattern, and each image is its class's pattern with
noise. A network learns such classes within a few rounds, so accuracy on them says nothing about a
method. Only times and memory do.
"""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from task.data.sources.base import Blocks, DatasetIndex, Source
from task.errors import refuse
from task.seeding import numpy_generator

PATTERN, NOISE = 40, 40  # standard deviations, in levels of 0 to 255
MIDDLE = 127.5
BLOCK_PIXELS = 2**20  # whose noise is drawn at a time
FORMULA = "2"  # of the pixels; another value makes stored images outdated


@dataclass
class Generated(Source):
    """Noisy images of random class patterns, in greyscale; equal settings give equal images.

    Attributes:
        num_classes: the number of classes; all have equally many images, or one more.
        num_images: the number of training images of all clients, with their validation images.
        test_images: the number of test images.
        seed: of the patterns and the noise; it is not the experiment's seed.
    """

    channels: ClassVar = 1
    mean: ClassVar = (0.5,)
    std: ClassVar = (0.25,)

    num_classes: int = field(kw_only=True)
    num_images: int = field(kw_only=True)
    test_images: int = field(kw_only=True)
    seed: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_classes < 2:
            refuse(self, "num_classes", "must be at least 2")
        if self.num_images < self.num_classes:
            refuse(self, "num_images", "must be at least num_classes")
        if self.test_images < 0:
            refuse(self, "test_images", "must be at least 0")
        if self.seed < 0:
            refuse(self, "seed", "must be at least 0")

    def fingerprint(self) -> str:
        return FORMULA

    def dataset_index(self) -> DatasetIndex:
        size, count = self.image_size, self.num_images + self.test_images
        labels = np.arange(count, dtype=np.int64) % self.num_classes
        generator = numpy_generator(self.seed, "patterns")
        patterns = MIDDLE + PATTERN * generator.standard_normal((self.num_classes, size, size))

        length = max(1, BLOCK_PIXELS // size**2)

        def compute(block: int) -> NDArray[np.uint8]:
            own = labels[block * length : (block + 1) * length]
            noise = np.random.default_rng((self.seed, block)).standard_normal((length, size, size))
            values = patterns[own] + NOISE * noise[: len(own)]
            return values.clip(0, 255).astype(np.uint8)[..., np.newaxis]

        return DatasetIndex(
            classes=tuple(map(str, range(self.num_classes))),
            labels=labels,
            test=np.arange(count) >= self.num_images,
            read=lambda index: Image.fromarray(compute(index // length)[index % length, :, :, 0]),
            name=lambda index: f"generated image {index}",
            domains=("",),
            domain_of=np.zeros(count, dtype=np.int64),
            blocks=Blocks(-(-count // length), compute),
        )
