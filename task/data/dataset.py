"""A data set that is ready for training."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from task.registry import named

Positions = NDArray[np.int64]
COMBINATIONS = "task.data.combinations:names_of"  # of labels, with task=multilabel


@dataclass(frozen=True)
class Duplicates:
    """How many images are there twice, compared by their pixels.

    Attributes:
        test_in_training: test images that are also in training.
        two_labels: images whose copies have several labels.
        repeats: images that repeat another one.
        note: says so; empty if there are none.
        listed: the image, label and set (training or test) of each repeat, and the image and label
            that it repeats.
    """

    test_in_training: int
    two_labels: int
    repeats: int
    note: str
    listed: tuple[tuple[str, ...], ...]

    def counts(self) -> dict[str, int]:
        """Return the counts by their names."""
        return {name: getattr(self, name) for name in ("test_in_training", "two_labels", "repeats")}


@dataclass(frozen=True)
class ImageDataset:
    """A decoded data set, its pixels in memory or memory-mapped from disk.

    Attributes:
        version: a hash of the state of the source's files.
        content: a hash of images, labels and split, equal wherever the files are.
        images: [N, H, W, C] uint8; of vectors, [N, 1, 1, C] float32, NaN where a number is missing.
        labels: [N] int64, an index into `classes`; with `targets`, into `label_names`.
        domain_of: [N] int64, an index into `domains`.
        classes: the class names.
        domains: the domain names; a single empty name if the data set has no domains.
        train: positions of the training images of all clients, ascending.
        test: positions of the held-out test set, ascending; disjoint from `train`.
        mean: per channel, of images scaled to [0, 1], or of vectors.
        std: likewise.
        skipped: name and reason of each image that could not be decoded; these are neither in
            `train` nor in `test`.
        notes: messages for the user.
        subject_of: [N] int64, the subject of each image, such as a patient; None if each image has
            its own.
        duplicates: images that are there twice; None if they were not looked for.
        targets: [N, D] uint8, 1 for each class that an image has, if it can have several; None if
            each image has one.
    """

    version: str
    content: str
    images: NDArray[Any]
    labels: Positions
    domain_of: Positions
    classes: tuple[str, ...]
    domains: tuple[str, ...]
    train: Positions
    test: Positions
    mean: tuple[float, ...]
    std: tuple[float, ...]
    skipped: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    subject_of: Positions | None = None
    duplicates: Duplicates | None = None
    targets: NDArray[np.uint8] | None = None

    @property
    def label_names(self) -> Sequence[str]:
        """The names of the values of `labels`: the classes, or combinations of them."""
        return names_of_labels(self.classes, self.labels, self.targets)

    def images_of_class(self, positions: Positions) -> Positions:
        """Return how many of the images at some positions have each class, [D]."""
        if self.targets is not None:
            found: Positions = self.targets[positions].sum(axis=0, dtype=np.int64)
            return found
        return np.bincount(self.labels[positions], minlength=len(self.classes))

    @property
    def vectors(self) -> bool:
        """Whether the examples are rows of numbers."""
        return self.images.dtype != np.uint8


def names_of_labels(
    classes: Sequence[str], labels: Positions, targets: NDArray[np.uint8] | None
) -> Sequence[str]:
    """Return the names of the values of `labels`: the classes, or combinations of them.

    Args:
        classes: the class names.
        labels: [N].
        targets: [N, D], if an image can have several classes.
    """
    if targets is None:
        return classes
    found: Sequence[str] = named(COMBINATIONS)(classes, labels, targets)
    return found
