"""Tiny ImageNet: 200 classes, 500 training images each, 64x64.

Source: Y. Le, X. Yang, "Tiny ImageNet Visual Recognition Challenge", Stanford CS 231N, 2015. Its
test part has no labels, so the 10,000 validation images are the test set, as in FedUV.
"""

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from task.data.sources.base import DatasetIndex
from task.data.sources.families.directory_source import (
    DirectorySource,
    hash_of_states,
    require_file,
)
from task.data.sources.families.tree import count_note, index_of_files, walk
from task.errors import ConfigError, DataError

FOLDER = "tiny-imagenet-200"
IMAGES = 110_000
CURE = "unpack tiny-imagenet-200.zip again"


@dataclass
class TinyImagenet(DirectorySource):
    """``wnids.txt``, ``train/<wnid>/images/*``, ``val/images/*`` and ``val/val_annotations.txt``.

    Class names are WordNet ids, in the order of ``wnids.txt``.
    """

    def fingerprint(self) -> str:
        place = self._place()
        lists = [
            require_file(place / name, CURE) for name in ("wnids.txt", "val/val_annotations.txt")
        ]
        files = hash_of_states((path.name, path.stat()) for path in lists)
        return files + walk(place / "train").fingerprint + walk(place / "val").fingerprint

    def dataset_index(self) -> DatasetIndex:
        place = self._place()
        classes = require_file(place / "wnids.txt", CURE).read_text().split()
        train = [Path("train", *file.parts) for file in walk(place / "train").files]
        names = [path.parts[1] for path in train]
        test, test_names = validation_images(place)
        known = set(classes)
        for path, name in zip([*train, *test], [*names, *test_names], strict=True):
            if name not in known:
                raise DataError(f"{place / path}: class {name!r} is not in {place / 'wnids.txt'}")
        held_out = np.arange(len(train) + len(test)) >= len(train)
        return index_of_files(
            place,
            [*train, *test],
            classes,
            [*names, *test_names],
            held_out,
            notes=count_note(len(held_out), IMAGES),
        )

    def _place(self) -> Path:
        for candidate in (self.directory, self.directory / FOLDER):
            if (candidate / "wnids.txt").is_file():
                return candidate
        raise ConfigError("data.root", self.root, f"must contain {FOLDER} with its wnids.txt")


def validation_images(place: Path) -> tuple[list[Path], list[str]]:
    """Return the paths of the validation images, and their classes, from the annotations.

    Raises:
        DataError: a line has no class.
    """
    annotations = require_file(place / "val" / "val_annotations.txt", CURE)
    with annotations.open(newline="") as file:
        rows = [row for row in csv.reader(file, delimiter="\t") if row]
    for line, row in enumerate(rows, start=1):
        if len(row) < 2:
            raise DataError(
                f"{annotations}, line {line}: must have a file name and a class; {CURE}"
            )
    return [Path("val", "images", row[0]) for row in rows], [row[1] for row in rows]
