"""EMNIST: handwritten digits and letters in greyscale, 28x28, in five selections.

================  =========  ===========  =======
``data.split``    training   test         classes
================  =========  ===========  =======
``balanced``        112,800       18,800  47
``byclass``         697,932      116,323  62
``bymerge``         697,932      116,323  47
``letters``         124,800       20,800  26
``digits``          240,000       40,000  10
================  =========  ===========  =======

The files hold each image with rows and columns exchanged; here it stands upright. In ``balanced``
and ``bymerge``, lower-case letters that look like their capitals have the class of the capital; in
``letters`` all do.

Source: G. Cohen, S. Afshar, J. Tapson, A. van Schaik, "EMNIST: an extension of MNIST to handwritten
letters", IJCNN 2017.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

from PIL import Image

from task.data.sources.families.torchvision_source import Reader, TorchvisionSource, as_reader

Split = Literal["balanced", "byclass", "bymerge", "letters", "digits"]


class Upright:
    """Torchvision's reader with rows and columns exchanged, and with labels from 0."""

    def __init__(self, reader: Reader, unused: int) -> None:
        self._reader, self._unused = reader, unused
        self.classes = reader.classes[unused:]

    def __len__(self) -> int:
        return len(self._reader)

    def __getitem__(self, index: int) -> tuple[Image.Image, int]:
        image, label = self._reader[index]
        return image.transpose(Image.Transpose.TRANSPOSE), label - self._unused


@dataclass
class Emnist(TorchvisionSource):
    """EMNIST in its unpacked files, in ``EMNIST/raw``; the mean is that of ``balanced``.

    Attributes:
        split: the selection of images and classes.
    """

    folder: ClassVar = "EMNIST/raw"
    channels: ClassVar = 1
    mean: ClassVar = (0.1751,)
    std: ClassVar = (0.3332,)

    split: Split

    def part(self, train: bool, download: bool) -> tuple[Reader, list[int]]:
        from torchvision.datasets import EMNIST  # noqa: PLC0415  (see TorchvisionSource.part)

        dataset = EMNIST(self.root, split=self.split, train=train, download=download)
        unused = int(self.split == "letters")  # its labels begin with 1
        return Upright(as_reader(dataset), unused), (dataset.targets - unused).tolist()
