"""Your own images, as they lie: ``<class>/*``, ``<split>/<class>/*`` or ``<domain>/<class>/*``.

Which of the three it is shows in the directories' names and depth. Splits are called ``train`` (or
``training``), ``val`` (``valid``, ``validation``) and ``test`` (``testing``), in any case; where
there is no ``test``, ``val`` is the test set, and where there is, ``val`` is trained on like
``train``: every client keeps a tenth of its own images for validation anyway. Without either, a
share of each class and domain is held out.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from task.data.sources.base import Catalogue, Source
from task.data.sources.families.no_images import NoImages
from task.data.sources.families.rooted import Rooted
from task.data.sources.families.tree import (
    Tree,
    file_catalogue,
    readable,
    sample_test,
    share,
    walk,
)
from task.errors import ConfigError, DataError, refuse
from task.registry import Names

TRAIN, TEST = ("train", "training"), ("test", "testing")
VALIDATION = ("val", "valid", "validation")
SPLITS = (*TRAIN, *VALIDATION, *TEST)
LAYOUTS = "<class>/*, <split>/<class>/* or <domain>/<class>/*"


@dataclass
class Folder(Rooted):
    """A directory of images that nobody needs to convert.

    Attributes:
        classes: the class names in the order of their labels; None for the directories' names,
            sorted. Every site of an experiment must have the same, so there they must be given.
        test_share: the share of each class and domain held out where no directory says so.
    """

    skips_bad_images: ClassVar = True

    classes: Names | None
    test_share: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.test_share <= 1:
            refuse(self, "test_share", "must be from 0 to 1")
        if self.classes is not None and len(set(self.classes)) < max(2, len(self.classes)):
            refuse(self, "classes", "must be two different names or more")

    def fingerprint(self) -> str:
        return walk(self.directory).fingerprint

    def catalogue(self) -> Catalogue:
        tree = walk(self.directory)
        if not tree.files:
            raise ConfigError("data.root", self.root, f"holds no images; expected {LAYOUTS}")
        above = directories_above(tree)
        splits = [name.lower() if name.lower() in SPLITS else "" for name in above]
        domains = ["" if split else name for name, split in zip(above, splits, strict=True)]
        names = [readable(file.parts[-2]) for file in tree.files]
        classes = self._classes(tree, domains, names)
        test = split_test(splits)
        if not test.any():
            test = sample_test(list(zip(domains, names, strict=True)), share(self.test_share))
        return file_catalogue(
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
                "data.classes", None, "sites must agree on the classes: data.classes=[cat,dog]"
            )
        return replace(self, root=directory, test_share=0.0)

    def at_coordinator(self) -> Source:
        return self if self.root or not self.classes else NoImages(self.image_size, self.classes)

    def _classes(self, tree: Tree, domains: Sequence[str], names: Sequence[str]) -> Sequence[str]:
        """The classes that were given, or those that are there, one without images among them."""
        places = [parts for parts in tree.directories if len(parts) == depth(tree) - 1]
        if self.classes is None:
            apart = len(set(zip(domains, names, strict=True))) == len(set(names))
            if len(set(domains)) > 1 and apart:
                first, second, *_ = sorted(set(domains))
                raise DataError(
                    f"{tree.root}: no class is both in {first} and in another domain; lay images "
                    f"out as <class>/* if {first} and {second} are the classes, or name the "
                    "classes in data.classes"
                )
            found = sorted({readable(parts[-1]) for parts in places})
            if len(found) < 2:
                raise DataError(f"{tree.root}: one class alone, {found[0]}; expected {LAYOUTS}")
            return found
        for parts in places:
            if readable(parts[-1]) not in self.classes:
                known = f"is not among the experiment's classes {', '.join(self.classes)}"
                where = tree.root.joinpath(*parts)
                raise DataError(f"{where}: class {parts[-1]!r} {known} (data.classes)")
        return self.classes


def depth(tree: Tree) -> int:
    """How many names lead to an image: 2 for ``<class>/*``, 3 with a split or domain above."""
    return len(tree.files[0].parts)


def directories_above(tree: Tree) -> list[str]:
    """Each image's split or domain; empty where its class's directory lies in the root.

    Raises:
        DataError: images lie at several depths, or too deep.
    """
    for file in tree.files:
        where = tree.root.joinpath(*file.parts)
        if len(file.parts) == 1:
            cure = "lies in data.root itself; put it into a directory named after its class"
            raise DataError(f"{where}: {cure} ({LAYOUTS})")
        if len(file.parts) > 3:
            raise DataError(f"{where}: lies too deep; expected {LAYOUTS}")
        if len(file.parts) != depth(tree):
            first = tree.root.joinpath(*tree.files[0].parts)
            raise DataError(f"{where}: lies at another depth than {first}; expected {LAYOUTS}")
    above = [readable(file.parts[0]) if len(file.parts) == 3 else "" for file in tree.files]
    odd = sorted(name for name in set(above) if name.lower() not in SPLITS)
    if odd and len(odd) < len(set(above)):
        raise DataError(f"{tree.root / odd[0]}: stands beside splits and is called otherwise")
    return above


def split_test(splits: Sequence[str]) -> NDArray[np.bool_]:
    """The test set where directories say so; without a ``test``, ``val`` is it."""
    held_out = TEST if set(splits) & set(TEST) else VALIDATION
    return np.array([split in held_out for split in splits], dtype=np.bool_)


def split_notes(splits: Sequence[str]) -> list[str]:
    """What becomes of a validation split where there is a test split too."""
    joined = sum(split in VALIDATION for split in splits)
    if not joined or not set(splits) & set(TEST):
        return []
    return [f"{joined} images of the validation split are trained on: clients keep a tenth anyway"]


def notes(tree: Tree, classes: Sequence[str], names: Sequence[str]) -> list[str]:
    """What a person may not have meant: classes without images, files that are no images."""
    found = []
    if empty := sorted(set(classes) - set(names)):
        found.append(f"no images of class {', '.join(empty)}")
    if tree.others:
        files = "1 file" if len(tree.others) == 1 else f"{len(tree.others)} files"
        example = readable(tree.others[0])
        found.append(f"{files} not named as an image was not looked at, such as {example}")
    return found
