"""What every data set gives: a catalogue of its images, and how to read one of them."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from task.errors import ConfigError, refuse

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class Catalogue:
    """What a data set holds, before any image is decoded.

    Attributes:
        classes: the class names.
        labels: [N] int64, an index into `classes`.
        test: [N] bool, the held-out test set.
        read: opens image i; may raise whatever a damaged image makes Pillow raise.
        name: says for people where image i lies.
        domains: the names of the domains; one, without a name, where there are none.
        domain_of: [N] int64, an index into `domains`.
        notes: what a person should know of it, for the record.
    """

    classes: tuple[str, ...]
    labels: NDArray[np.int64]
    test: NDArray[np.bool_]
    read: Callable[[int], Image.Image]
    name: Callable[[int], str]
    domains: tuple[str, ...]
    domain_of: NDArray[np.int64]
    notes: Sequence[str] = ()


@dataclass
class Source(ABC):
    """The settings of one data set, and how to read it.

    Attributes:
        image_size: height and width in pixels to which images are resized.
        channels: 3 for colour, 1 for grey.
        mean: per channel, subtracted from images scaled to [0, 1].
        std: per channel, divides what the subtraction leaves.
        skips_bad_images: whether an image that cannot be decoded is left out and counted; else it
            stops the preparation, because a benchmark with a hole is another benchmark.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid", "allow_inf_nan": False}
    channels: ClassVar[int] = 3
    mean: ClassVar[tuple[float, ...]] = IMAGENET_MEAN
    std: ClassVar[tuple[float, ...]] = IMAGENET_STD
    skips_bad_images: ClassVar[bool] = False

    image_size: int

    def __post_init__(self) -> None:
        if not 8 <= self.image_size <= 1024:
            refuse(self, "image_size", "must be from 8 to 1024")

    @property
    def name(self) -> str:
        """What ``data=`` calls it."""
        return type(self).__module__.rpartition(".")[2]

    def expect(self) -> None:  # noqa: B027  (some lie nowhere)
        """See whether the files can be there, at the price of a look.

        Raises:
            ConfigError: they are not where the settings say, and will not be fetched.
        """

    def to_fetch(self) -> bool:
        """Whether the files are not there, and can be and shall be fetched."""
        return False

    def fetch(self) -> None:  # noqa: B027  (most cannot)
        """Make the files be there.

        Raises:
            DataError: it failed.
        """

    @abstractmethod
    def fingerprint(self) -> str:
        """A text that changes when the data set's files do; found without opening them.

        Raises:
            ConfigError: the files are not where the settings say.
        """

    @abstractmethod
    def catalogue(self) -> Catalogue:
        """List the data set. Equal settings and files give equal catalogues.

        Raises:
            ConfigError: the files are not where the settings say.
            DataError: they are not what the data set should have.
        """

    def at_site(self, directory: str) -> "Source":
        """The same classes and settings, with all of one site's own directory to train on.

        Raises:
            ConfigError: sites cannot bring this data set.
        """
        raise ConfigError(
            "data", self.name,
            f"a benchmark, which no site brings (asked for {directory}); with partition=sites "
            "use data=folder data.classes=[...]",
        )  # fmt: skip

    def at_coordinator(self) -> "Source":
        """What the coordinator of sites reads itself: its test set, if it has one."""
        return self
