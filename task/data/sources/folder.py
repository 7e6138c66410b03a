"""Your own images as ``<class>/*``, ``<split>/<class>/*`` or ``<domain>/<class>/*``.

The layout follows from the names and depth of the directories. Names of splits are ``train`` (or
``training``), ``val`` (``valid``, ``validation``) and ``test`` (``testing``), in any case. The test
set is ``test``; if there is none, it is ``val``; if there is neither, a share of each class and
domain. If there are both, ``val`` is used for training, because each client holds out a tenth of
its own images for validation.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from task.data.sources.base import DatasetIndex, Source
from task.data.sources.families.directory_source import DirectorySource
from task.data.sources.families.no_images import NoImages
from task.data.sources.families.tree import (
    Tree,
    index_of_files,
    readable,
    sample_test,
    share_of_group,
    walk,
)
from task.errors import ConfigError, DataError, refuse
from task.registry import Names

TRAIN, TEST = ("train", "training"), ("test", "testing")
VALIDATION = ("val", "valid", "validation")
SPLITS = (*TRAIN, *VALIDATION, *TEST)
LAYOUTS = "<class>/*, <split>/<class>/* or <domain>/<class>/*"


@dataclass
class Folder(DirectorySource):
    """A directory of images.

    Attributes:
        classes: the class names in the order of their labels; None for the sorted directory names.
            Experiments with sites must set them, because all sites need the same classes.
        test_share: the share of each class and domain that is held out if there is no directory
            for the test set.
    """

    skips_bad_images: ClassVar = True

    classes: Names | None
    test_share: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.test_share <= 1:
            refuse(self, "test_share", "must be from 0 to 1")
        if self.classes is not None and len(set(self.classes)) < max(2, len(self.classes)):
            refuse(self, "classes", "must be at least two different names")

    def fingerprint(self) -> str:
        return walk(self.directory).fingerprint

    def dataset_index(self) -> DatasetIndex:
        tree = walk(self.directory)
        if tree.not_listed:
            deep = tree.root.joinpath(*tree.not_listed[0])
            raise DataError(f"{deep}: is too deep; expected {LAYOUTS}")
        if not tree.files:
            raise ConfigError("data.root", self.root, f"contains no images; expected {LAYOUTS}")
        parents = splits_or_domains(tree)
        splits = [name.lower() if name.lower() in SPLITS else "" for name in parents]
        domains = ["" if split else name for name, split in zip(parents, splits, strict=True)]
        names = [readable(file.parts[-2]) for file in tree.files]
        classes = self._classes(tree, domains, names)
        test = split_test(splits)
        if not test.any():
            test = sample_test(
                list(zip(domains, names, strict=True)), share_of_group(self.test_share)
            )
        return index_of_files(
            tree.root,
            [Path(*file.parts) for file in tree.files],
            classes,
            names,
            test,
            domains,
            [*split_notes(splits), *notes(tree, classes, names)],
        )

    def at_site(self, directory: str) -> "Folder":
        if self.classes is None:
            raise ConfigError(
                "data.classes", None, "all sites need the same classes: data.classes=[cat,dog]"
            )
        return replace(self, root=directory, test_share=0.0)

    def at_coordinator(self) -> Source:
        return self if self.root or not self.classes else NoImages(self.image_size, self.classes)

    def _classes(self, tree: Tree, domains: Sequence[str], names: Sequence[str]) -> Sequence[str]:
        """Return the given classes, or else the names of the directories with images.

        Raises:
            DataError: a directory is not among the given classes, or the directories cannot be
                classes. Or no directory of a name has images and the classes are not given.
        """
        directories = [parts for parts in tree.directories if len(parts) == depth(tree) - 1]
        if self.classes is None:
            disjoint = len(set(zip(domains, names, strict=True))) == len(set(names))
            if len(set(domains)) > 1 and disjoint:
                first, second, *_ = sorted(set(domains))
                raise DataError(
                    f"{tree.root}: the domains have no class in common; if {first} and {second} "
                    "are the classes, store the images as <class>/*; otherwise list the classes "
                    "in data.classes"
                )
            found = sorted(set(names))
            for parts in directories:
                if readable(parts[-1]) not in found:
                    raise DataError(
                        f"{tree.root.joinpath(*parts)}: has no images; remove it or, if it is a "
                        "class, list the classes in data.classes"
                    )
            if len(found) < 2:
                raise DataError(f"{tree.root}: only one class, {found[0]}; expected {LAYOUTS}")
            return found
        for parts in directories:
            if readable(parts[-1]) not in self.classes:
                known = f"is not one of the experiment's classes, {', '.join(self.classes)}"
                known += " (data.classes); remove the directory, or list its name"
                where = tree.root.joinpath(*parts)
                raise DataError(f"{where}: class {parts[-1]!r} {known}")
        return self.classes


def depth(tree: Tree) -> int:
    """Return the number of names in an image's path: 2 for ``<class>/*``, otherwise 3."""
    return len(tree.files[0].parts)


def splits_or_domains(tree: Tree) -> list[str]:
    """Return each image's split or domain; empty for the layout ``<class>/*``.

    Raises:
        DataError: image paths differ in length, or are too long.
    """
    for file in tree.files:
        where = tree.root.joinpath(*file.parts)
        if len(file.parts) == 1:
            cure = "is directly in data.root; move it to a directory named after its class"
            raise DataError(f"{where}: {cure} ({LAYOUTS})")
        if len(file.parts) > 3:
            raise DataError(f"{where}: is too deep; expected {LAYOUTS}")
        if len(file.parts) != depth(tree):
            first = tree.root.joinpath(*tree.files[0].parts)
            raise DataError(f"{where}: has another depth than {first}; expected {LAYOUTS}")
    parents = [readable(file.parts[0]) if len(file.parts) == 3 else "" for file in tree.files]
    others = sorted(name for name in set(parents) if name.lower() not in SPLITS)
    if others and len(others) < len(set(parents)):
        cure = "call it train, val or test, or move it elsewhere"
        raise DataError(f"{tree.root / others[0]}: is beside directories of splits; {cure}")
    return parents


def split_test(splits: Sequence[str]) -> NDArray[np.bool_]:
    """Return which images are in the split for testing: ``test``, or else ``val``."""
    held_out = TEST if set(splits) & set(TEST) else VALIDATION
    return np.array([split in held_out for split in splits], dtype=np.bool_)


def split_notes(splits: Sequence[str]) -> list[str]:
    """Return a note if a validation split is used for training."""
    used = sum(split in VALIDATION for split in splits)
    if not used or not set(splits) & set(TEST):
        return []
    reason = "each client holds out images of its own for validation (data.validation_share)"
    return [f"{used} images of the validation split are used for training; {reason}"]


def notes(tree: Tree, classes: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return notes on classes without images and on files that are not images."""
    found = []
    if empty := sorted(set(classes) - set(names)):
        found.append(f"no images of class {', '.join(empty)}")
    if tree.others:
        files = "1 file" if len(tree.others) == 1 else f"{len(tree.others)} files"
        example = readable(tree.others[0])
        found.append(f"{files} without an image extension ignored, such as {example}")
    return found
