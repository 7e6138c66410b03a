"""Data sets that torchvision downloads, verifies by checksum and reads."""

from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol, cast

import numpy as np
from PIL import Image

from task.data.sources.base import Catalogue
from task.data.sources.families.parts import place_of
from task.data.sources.families.rooted import Rooted, state_of
from task.errors import ConfigError, DataError


class Reader(Protocol):
    """What we use of torchvision's data sets."""

    classes: list[str]

    def __len__(self) -> int:
        """How many images."""

    def __getitem__(self, index: int) -> tuple[Image.Image, int]:
        """One image and its label."""


@dataclass
class Packaged(Rooted):
    """A data set with a training and a test part of its own.

    Attributes:
        download: fetch it into `root` when it is not there.
        folder: the directory that torchvision makes in `root`.
    """

    folder: ClassVar[str]

    download: bool

    @abstractmethod
    def part(self, train: bool, download: bool) -> tuple[Reader, list[int]]:
        """Torchvision's reader for one part, and its labels."""

    def to_fetch(self) -> bool:
        return self.download and self.root is not None and not Path(self.root, self.folder).is_dir()

    def fetch(self) -> None:
        try:
            self.part(train=True, download=True)
        except (OSError, RuntimeError) as error:
            raise DataError(f"{self.root}: the download failed: {error}") from None

    def fingerprint(self) -> str:
        directory = self.directory / self.folder
        if not directory.is_dir():
            cure = f"must hold {self.folder}; data.download=true fetches it"
            raise ConfigError("data.root", self.root, cure)
        files = sorted(path for path in directory.iterdir() if path.is_file())
        return state_of((path.name, path.stat()) for path in files)

    def catalogue(self) -> Catalogue:
        try:
            (train, labels), (test, test_labels) = (
                self.part(train=kind, download=False) for kind in (True, False)
            )
            classes = tuple(train.classes)
        except (RuntimeError, AttributeError) as error:
            where = self.directory / self.folder
            cure = "remove the directory and fetch it again with data.download=true"
            raise DataError(f"{where}: {str(error).split('.')[0].lower()}; {cure}") from None
        images = (train, test)
        sizes = (len(train), len(test))

        def read(index: int) -> Image.Image:
            part, position = place_of(index, sizes)
            return images[part][position][0]

        def name(index: int) -> str:
            part, position = place_of(index, sizes)
            return f"{self.directory / self.folder}: {('train', 'test')[part]} image {position}"

        total = sum(sizes)
        return Catalogue(
            classes=classes,
            labels=np.array([*labels, *test_labels], dtype=np.int64),
            test=np.arange(total) >= sizes[0],
            read=read,
            name=name,
            domains=("",),
            domain_of=np.zeros(total, dtype=np.int64),
        )


def as_reader(dataset: object) -> Reader:
    """Torchvision's data set, which has no types, as what we use of it."""
    return cast(Reader, dataset)
