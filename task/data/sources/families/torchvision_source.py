"""Data sets that torchvision downloads, verifies by checksum and reads."""

from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol, cast

import numpy as np
from PIL import Image

from task.data.sources.base import DatasetIndex
from task.data.sources.families.directory_source import DirectorySource, hash_of_states
from task.data.sources.families.parts import locate
from task.errors import ConfigError, DataError


class Reader(Protocol):
    """The part of torchvision's data sets that is used here."""

    classes: list[str]

    def __len__(self) -> int:
        """Return the number of images."""

    def __getitem__(self, index: int) -> tuple[Image.Image, int]:
        """Return one image and its label."""


@dataclass
class TorchvisionSource(DirectorySource):
    """A data set of torchvision with a training and a test part.

    Attributes:
        download: whether to download it to `root` if it is missing.
        folder: the name of the directory that torchvision creates in `root`.
    """

    folder: ClassVar[str]

    download: bool

    @abstractmethod
    def part(self, train: bool, download: bool) -> tuple[Reader, list[int]]:
        """Return torchvision's reader of one part, and its labels.

        It imports torchvision, which takes three seconds. Once the images are in the image store,
        no process needs it.
        """

    def needs_download(self) -> bool:
        return self.download and self.root is not None and not Path(self.root, self.folder).is_dir()

    def fetch(self) -> None:
        try:
            for kind in (True, False):
                self.part(train=kind, download=True)
        except (OSError, RuntimeError) as error:
            raise DataError(f"{self.root}: the download failed: {error}") from None

    def fingerprint(self) -> str:
        directory = self.directory / self.folder
        if not directory.is_dir():
            cure = f"must contain {self.folder}; data.download=true downloads it"
            raise ConfigError("data.root", self.root, cure)
        files = sorted(path for path in directory.iterdir() if path.is_file())
        return hash_of_states((path.name, path.stat()) for path in files)

    def dataset_index(self) -> DatasetIndex:
        try:
            (train, labels), (test, test_labels) = (
                self.part(train=kind, download=False) for kind in (True, False)
            )
            classes = tuple(train.classes)
        except (RuntimeError, AttributeError) as error:
            where = self.directory / self.folder
            cure = "remove the directory and add data.download=true to download it again"
            raise DataError(f"{where}: {str(error).split('.')[0].lower()}; {cure}") from None
        images = (train, test)
        sizes = (len(train), len(test))

        def read(index: int) -> Image.Image:
            part, position = locate(index, sizes)
            return images[part][position][0]

        def name(index: int) -> str:
            part, position = locate(index, sizes)
            return f"{self.directory / self.folder}: {('train', 'test')[part]} image {position}"

        total = sum(sizes)
        return DatasetIndex(
            classes=classes,
            labels=np.array([*labels, *test_labels], dtype=np.int64),
            test=np.arange(total) >= sizes[0],
            read=read,
            name=name,
            domains=("",),
            domain_of=np.zeros(total, dtype=np.int64),
        )


def as_reader(dataset: object) -> Reader:
    """Return torchvision's data set, which has no types, typed as a `Reader`."""
    return cast(Reader, dataset)
