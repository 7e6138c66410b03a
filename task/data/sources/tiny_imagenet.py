"""Tiny ImageNet: 200 classes, 500 training images each, 64x64.

Source: Y. Le, X. Yang, "Tiny ImageNet Visual Recognition Challenge", Stanford CS 231N, 2015. Its
test part has no labels, so the 10,000 validation images are the test set, as FedUV has it.
"""

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from task.data.sources.base import Catalogue
from task.data.sources.families.rooted import Rooted, expect_file, state_of
from task.data.sources.families.tree import file_catalogue, missing_note, walk
from task.errors import ConfigError, DataError

FOLDER = "tiny-imagenet-200"
IMAGES = 110_000
CURE = "unpack tiny-imagenet-200.zip again"


@dataclass
class TinyImagenet(Rooted):
    """``wnids.txt``, ``train/<wnid>/images/*``, ``val/images/*`` and ``val/val_annotations.txt``.

    A class is named by its WordNet id, in the order of ``wnids.txt``.
    """

    def fingerprint(self) -> str:
        place = self._place()
        lists = [
            expect_file(place / name, CURE) for name in ("wnids.txt", "val/val_annotations.txt")
        ]
        files = state_of((path.name, path.stat()) for path in lists)
        return files + walk(place / "train").fingerprint + walk(place / "val").fingerprint

    def catalogue(self) -> Catalogue:
        place = self._place()
        classes = expect_file(place / "wnids.txt", CURE).read_text().split()
        train = [Path("train", *file.parts) for file in walk(place / "train").files]
        names = [path.parts[1] for path in train]
        test, test_names = validation_images(place)
        known = set(classes)
        for path, name in zip([*train, *test], [*names, *test_names], strict=True):
            if name not in known:
                raise DataError(f"{place / path}: class {name!r} is not in {place / 'wnids.txt'}")
        held_out = np.arange(len(train) + len(test)) >= len(train)
        return file_catalogue(
            place,
            [*train, *test],
            classes,
            [*names, *test_names],
            held_out,
            notes=missing_note(len(held_out), IMAGES),
        )

    def _place(self) -> Path:
        for candidate in (self.directory, self.directory / FOLDER):
            if (candidate / "wnids.txt").is_file():
                return candidate
        raise ConfigError("data.root", self.root, f"must hold {FOLDER}, with its wnids.txt")


def validation_images(place: Path) -> tuple[list[Path], list[str]]:
    """The validation images and their classes, as the annotations have them."""
    annotations = expect_file(place / "val" / "val_annotations.txt", CURE)
    with annotations.open(newline="") as file:
        rows = [row for row in csv.reader(file, delimiter="\t") if row]
    for line, row in enumerate(rows, start=1):
        if len(row) < 2:
            raise DataError(f"{annotations}, line {line}: no file name and class; {CURE}")
    return [Path("val", "images", row[0]) for row in rows], [row[1] for row in rows]
