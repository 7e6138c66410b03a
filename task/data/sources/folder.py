"""Your own images, as they lie: ``<class>/*``, ``<split>/<class>/*`` or ``<domain>/<class>/*``.

Which of the three it is shows in the directories' names and depth. Splits are called ``train``,
``val`` (or ``valid``, ``validation``) and ``test``; where there is no ``test``, ``val`` is the test
set, and where there is, ``val`` is trained on like ``train``: every client keeps a tenth of its own
images for validation anyway. Without splits, a share of each class and domain is held out.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from task.data.sources.base import Catalogue
from task.data.sources.families.rooted import Rooted
from task.data.sources.families.tree import Tree, file_catalogue, sample_test, walk
from task.errors import ConfigError, DataError, refuse

TRAIN, VALIDATION, TEST = ("train",), ("val", "valid", "validation"), ("test",)
SPLITS = (*TRAIN, *VALIDATION, *TEST)
LAYOUTS = "<class>/*, <split>/<class>/* or <domain>/<class>/*"


@dataclass
class Folder(Rooted):
    """A directory of images that nobody needs to convert.

    Attributes:
        classes: the class names in the order of their labels; None for the directories' names,
            sorted. Every site of an experiment must have the same, so there they must be given.
        test_share: the share of each class and domain held out where there is no split.
    """

    skips_bad_images: ClassVar = True

    classes: list[str] | None
    test_share: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.test_share <= 1:
            refuse(self, "test_share", "must be from 0 to 1")
        if self.classes is not None and len(set(self.classes)) < max(2, len(self.classes)):
            refuse(self, "classes", "must be two different names or more")

    def fingerprint(self) -> str:
        return self._tree().fingerprint

    def catalogue(self) -> Catalogue:
        tree = self._tree()
        if not tree.files and self.root is not None:
            raise ConfigError("data.root", self.root, f"holds no images; expected {LAYOUTS}")
        groups = directories_above(tree)
        names = [file.parts[-2] for file in tree.files]
        found = sorted({parts[-1] for parts in tree.directories if len(parts) == depth(tree) - 1})
        classes = self.classes or found
        for name in sorted(set(found) - set(classes)):
            (where,) = [parts for parts in tree.directories if parts[-1] == name][:1]
            known = f"is not among the experiment's classes {', '.join(classes)}"
            raise DataError(f"{tree.root.joinpath(*where)}: class {name!r} {known} (data.classes)")
        split = set(groups) <= set(SPLITS)
        return file_catalogue(
            tree.root,
            [Path(*file.parts) for file in tree.files],
            classes,
            names,
            split_test(groups) if split else self._sampled(groups, names),
            None if split or depth(tree) == 2 else groups,
            list(notes(tree, classes, names)),
        )

    def at_site(self, directory: str) -> "Folder":
        if self.classes is None:
            raise ConfigError(
                "data.classes", None, "sites must agree on the classes: data.classes=[cat,dog]"
            )
        return replace(self, root=directory, test_share=0.0)

    def _tree(self) -> Tree:
        if self.root is None and self.classes is not None:
            return Tree(Path(), [], [], [])  # a coordinator without images of its own
        return walk(self.directory)

    def _sampled(self, groups: Sequence[str], names: Sequence[str]) -> NDArray[np.bool_]:
        cells = list(zip(groups, names, strict=True))
        return sample_test(cells, lambda _, images: int(images * self.test_share + 0.5))


def depth(tree: Tree) -> int:
    """How many names lead to an image: 2 for ``<class>/*``, 3 with a split or domain above."""
    return len(tree.files[0].parts) if tree.files else 2


def directories_above(tree: Tree) -> list[str]:
    """Each image's split or domain; empty where its class's directory lies in the root.

    Raises:
        DataError: images lie at several depths, or too deep.
    """
    for file in tree.files:
        if len(file.parts) not in (2, 3) or len(file.parts) != depth(tree):
            first = tree.root.joinpath(*tree.files[0].parts)
            raise DataError(
                f"{tree.root.joinpath(*file.parts)}: images must all lie as one of {LAYOUTS}; "
                f"the first one is {first}"
            )
    groups = [file.parts[0] if len(file.parts) == 3 else "" for file in tree.files]
    odd = sorted(set(groups) - set(SPLITS))
    if odd and set(groups) & set(SPLITS):
        raise DataError(f"{tree.root / odd[0]}: stands beside splits and is called otherwise")
    return groups


def split_test(splits: Sequence[str]) -> NDArray[np.bool_]:
    """The test set where directories say so; without a ``test``, ``val`` is it."""
    held_out = TEST if set(splits) & set(TEST) else VALIDATION
    return np.array([split in held_out for split in splits], dtype=np.bool_)


def notes(tree: Tree, classes: Sequence[str], names: Sequence[str]) -> list[str]:
    """What a person may not have meant: classes without images, files that are no images."""
    found = []
    if empty := sorted(set(classes) - set(names)) if tree.files else []:
        found.append(f"no images of class {', '.join(empty)}")
    if tree.others:
        found.append(f"{len(tree.others)} files without an image's name, such as {tree.others[0]}")
    return found
