"""The interface of all data sets: an index of the images, and a function that reads one of them."""

import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from task.data.dataset import names_of_labels
from task.errors import ConfigError, DataError, refuse

Resize = Literal["squash", "crop", "pad"]
Interpolation = Literal["bilinear", "bicubic"]
Scaling = Literal["own", "half", "none"]
OnDuplicates = Literal["note", "drop", "refuse"]
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class Blocks(NamedTuple):
    """Images that are computed many at a time, which is much faster than one by one.

    Attributes:
        number: of blocks.
        compute: returns the pixels of block i, [n, H, W, C] in the source's size and type. All
            blocks, in order, are the images in order.
    """

    number: int
    compute: Callable[[int], NDArray[Any]]


class Labels(NamedTuple):
    """The labels of all images, as a `DatasetIndex` has them, and notes on them."""

    labels: NDArray[np.int64]
    targets: NDArray[np.uint8] | None
    notes: Sequence[str]


@dataclass(frozen=True)
class DatasetIndex:
    """The contents of a data set, before any image is decoded.

    Attributes:
        classes: the class names.
        labels: [N] int64, an index into `classes`; with `targets`, the number of the combination.
        test: [N] bool, true for images of the held-out test set.
        read: opens image i; raises what Pillow raises for a damaged image.
        name: describes where image i is stored, for messages.
        domains: the domain names; a single empty name if the data set has no domains.
        domain_of: [N] int64, an index into `domains`.
        notes: messages for the user and the record.
        blocks: of images that are computed and need no decoding; None for all others.
        subject_of: [N] int64, the subject of each image, such as a patient or a lesion; None if
            each image has its own. A client never trains on a subject and validates on it too.
        targets: [N, D] uint8, 1 for each class that an image has, if it can have several.
    """

    classes: tuple[str, ...]
    labels: NDArray[np.int64]
    test: NDArray[np.bool_]
    read: Callable[[int], Image.Image]
    name: Callable[[int], str]
    domains: tuple[str, ...]
    domain_of: NDArray[np.int64]
    notes: Sequence[str] = ()
    blocks: Blocks | None = None
    subject_of: NDArray[np.int64] | None = None
    targets: NDArray[np.uint8] | None = None

    @property
    def label_names(self) -> Sequence[str]:
        """The names of the values of `labels`: the classes, or combinations of them."""
        return names_of_labels(self.classes, self.labels, self.targets)

    def __post_init__(self) -> None:
        for kind, names in (("class", self.classes), ("domain", self.domains)):
            if len(set(names)) < len(names):
                raise DataError(f"{kind} names must differ: {', '.join(names)}")
            for name in names:
                if not name.isprintable() or name != cleaned(name):
                    allowed = "must be printable, composed (NFC) and without blanks around it"
                    raise DataError(f"{kind} name {name!a} {allowed}")
        if "" in self.classes:
            raise DataError("a class has no name")


def cleaned(name: str) -> str:
    """Return a name without blanks around it, and with composed accents (Unicode NFC).

    Directories that were made on a Mac have letters and accents apart; people type them composed.
    """
    return unicodedata.normalize("NFC", name).strip()


@dataclass
class Source(ABC):
    """The settings of a data set, and how its files are read.

    Attributes:
        image_size: height and width in pixels that images are resized to.
        resize: what is done with images that are not square. ``squash`` changes their aspect ratio,
            ``crop`` cuts the ends of the longer side off, and ``pad`` adds black borders.
        interpolation: how pixels between those of the file are computed. ``bilinear`` is that of
            the papers; many pretrained networks were made for ``bicubic``.
        channels: 3 for colour, 1 for greyscale; of vectors, their length.
        dtype: NumPy's name of the type of a pixel: ``uint8`` of images, ``float32`` of vectors.
        mean: per channel, of images scaled to [0, 1].
        std: per channel, of images scaled to [0, 1].
        skips_bad_images: whether images that cannot be decoded are left out and counted. Otherwise
            they are an error, because a benchmark must be complete.
        looks_for_duplicates: whether images with equal pixels are looked for. A benchmark is used
            as it was published.
        unstored: the settings that do not change the decoded images.
        normalisation: how pixels become the network's input, after they are scaled to [0, 1].
            ``own`` uses the data set's mean and deviation, ``half`` 0.5 for both, and ``none``
            leaves them.
        validation_share: share of each client's images that it validates on instead of training.
        duplicates: what is done with images that are there twice. ``note`` counts them, ``drop``
            keeps one copy of each, in training if one is there, and no copy of an image with
            several labels; ``refuse`` ends. Only for sources that look for them.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid", "allow_inf_nan": False}
    channels: ClassVar[int] = 3
    dtype: ClassVar[str] = "uint8"
    mean: ClassVar[tuple[float, ...]] = IMAGENET_MEAN
    std: ClassVar[tuple[float, ...]] = IMAGENET_STD
    skips_bad_images: ClassVar[bool] = False
    looks_for_duplicates: ClassVar[bool] = False
    unstored: ClassVar[tuple[str, ...]] = ("validation_share", "normalisation")

    image_size: int
    resize: Resize = field(default="squash", kw_only=True)
    interpolation: Interpolation = field(default="bilinear", kw_only=True)
    normalisation: Scaling = field(default="own", kw_only=True)
    validation_share: float = field(default=0.1, kw_only=True)
    duplicates: OnDuplicates = field(default="note", kw_only=True)

    def __post_init__(self) -> None:
        if not self.vectors and not 8 <= self.image_size <= 1024:
            refuse(self, "image_size", "must be from 8 to 1024")
        if not 0 <= self.validation_share <= 0.5:
            refuse(self, "validation_share", "must be from 0 to 0.5")

    @property
    def name(self) -> str:
        """The name used in ``data=NAME``."""
        return type(self).__module__.rpartition(".")[2]

    @property
    def vectors(self) -> bool:
        """Whether the examples are rows of numbers: images of one pixel."""
        return self.dtype != "uint8"

    @property
    def mean_and_std(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """What is subtracted from each channel of images in [0, 1], and what divides it then."""
        fixed = {"half": (0.5, 0.5), "none": (0.0, 1.0)}
        if self.normalisation in fixed:
            mean, std = fixed[self.normalisation]
            return (mean,) * self.channels, (std,) * self.channels
        return self.mean, self.std

    def check_files(self) -> None:  # noqa: B027  (some sources have no files)
        """Check quickly whether the files can be there, without reading them.

        Raises:
            ConfigError: they are not where the settings say, and will not be downloaded.
        """

    def needs_download(self) -> bool:
        """Return whether the files are missing and the settings ask for their download."""
        return False

    def fetch(self) -> None:  # noqa: B027  (most sources cannot be downloaded)
        """Download the files.

        Raises:
            DataError: the download failed.
        """

    @property
    def multilabel(self) -> bool:
        """Whether each image has any number of labels."""
        return False

    def with_labels(self) -> "Source":
        """Return the same data, where each image has any number of labels.

        Raises:
            ConfigError: each image has one class.
        """
        raise ConfigError(
            "task", "multilabel",
            "is for images with any number of labels, and those of "
            f"data={self.name} have one class; add task=classes, data=vectors with labels in the "
            "schema, or data=table",
        )  # fmt: skip

    @abstractmethod
    def fingerprint(self) -> str:
        """Return a text that changes with the files, made without opening all of them.

        Raises:
            ConfigError: the files are not where the settings say.
        """

    @abstractmethod
    def dataset_index(self) -> DatasetIndex:
        """List the images; equal settings and files give equal indexes.

        Raises:
            ConfigError: the files are not where the settings say.
            DataError: the files are not those of this data set.
        """

    def at_site(self, directory: str) -> "Source":
        """Return the same classes and settings for one site's directory, used only for training.

        Raises:
            ConfigError: sites cannot bring this data set.
        """
        raise ConfigError(
            "data", self.name,
            f"is a benchmark data set and cannot be read from {directory}; with partition=sites "
            "use data=folder or data=table, with data.classes=[...]",
        )  # fmt: skip

    def at_coordinator(self) -> "Source":
        """Return what the coordinator of sites reads itself: its test set, if it has one."""
        return self
