"""Directories of image files: the walk through one, and the catalogue of what it holds."""

import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from task.data.sources.base import Catalogue
from task.data.sources.families.rooted import state_of
from task.seeding import numpy_generator

TEST_SEED = 0

# Those that torchvision's ImageFolder looks at. Importing it for them would cost a site's every
# message three seconds.
IMG_EXTENSIONS = (
    ".bmp", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp",
)  # fmt: skip


class ImageFile(NamedTuple):
    """One file, by the names on the way to it from the root."""

    parts: tuple[str, ...]
    stat: os.stat_result


@dataclass(frozen=True)
class Tree:
    """What lies under a root, sorted by name.

    Attributes:
        root: the directory.
        files: those named as images are.
        directories: every directory, by the names on the way to it.
        others: files named otherwise, which are not looked at.
    """

    root: Path
    files: list[ImageFile]
    directories: list[tuple[str, ...]]
    others: list[str]

    @property
    def fingerprint(self) -> str:
        """Changes when a file or a directory comes, goes or is written again."""
        names = ["/".join(parts) for parts in self.directories]
        return state_of([("/".join(file.parts), file.stat) for file in self.files]) + "/".join(
            names
        )


def walk(root: Path, deepest: int = 4) -> Tree:
    """List a directory to a depth; names that begin with a dot are passed over.

    Raises:
        OSError: a directory cannot be read, or a link leads nowhere.
    """
    tree = Tree(root, [], [], [])
    _walk(tree, root, (), deepest)
    return tree


def _walk(tree: Tree, directory: Path, parts: tuple[str, ...], deepest: int) -> None:
    with os.scandir(directory) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        if entry.name.startswith("."):
            continue
        here = (*parts, entry.name)
        status = entry.stat()
        if stat.S_ISDIR(status.st_mode):
            tree.directories.append(here)
            if len(here) < deepest:
                _walk(tree, Path(entry.path), here, deepest)
        elif entry.name.lower().endswith(IMG_EXTENSIONS):
            tree.files.append(ImageFile(here, status))
        else:
            tree.others.append("/".join(here))


def readable(name: str) -> str:
    """A file's name as text that can be printed, also where it is not UTF-8."""
    return os.fsencode(name).decode(errors="replace")


def file_catalogue(
    root: Path,
    paths: Sequence[Path],
    classes: Sequence[str],
    class_names: Sequence[str],
    test: NDArray[np.bool_],
    domain_names: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> Catalogue:
    """A catalogue of image files.

    Args:
        root: what `paths` start from.
        paths: one an image.
        classes: the experiment's classes, in their order.
        class_names: each image's class.
        test: which images are held out.
        domain_names: each image's domain; "" for each, or nothing, where there are none.
        notes: for the record.
    """
    number = {name: index for index, name in enumerate(classes)}
    of_domain = domain_names or [""] * len(paths)
    domains = sorted(set(of_domain)) or [""]
    place = {name: index for index, name in enumerate(domains)}
    return Catalogue(
        classes=tuple(classes),
        labels=np.array([number[name] for name in class_names], dtype=np.int64),
        test=test,
        read=lambda index: Image.open(root / paths[index]),
        name=lambda index: readable(str(root / paths[index])),
        domains=tuple(domains),
        domain_of=np.array([place[name] for name in of_domain], dtype=np.int64),
        notes=notes,
    )


def missing_note(images: int, whole: int) -> list[str]:
    """What to say of a benchmark that has not the number of images that it should have."""
    return [] if images == whole else [f"{images} images, where the data set has {whole}"]


def share(of_each: float) -> Callable[[tuple[str, ...], int], int]:
    """A share of every group, to the nearest image, for `sample_test`."""
    return lambda _, images: int(images * of_each + 0.5)


def sample_test(
    groups: Sequence[tuple[str, ...]], wanted: Callable[[tuple[str, ...], int], int]
) -> NDArray[np.bool_]:
    """Hold out a test set that is the same whatever the experiment's seed.

    Args:
        groups: each image's group, such as its domain and class.
        wanted: from a group and its size, how many of it are held out.

    Returns:
        [N] bool, true in the test set.
    """
    members: dict[tuple[str, ...], list[int]] = {}
    for index, group in enumerate(groups):
        members.setdefault(group, []).append(index)
    test = np.zeros(len(groups), dtype=np.bool_)
    for group, indexes in sorted(members.items()):
        generator = numpy_generator(TEST_SEED, "test", *group)
        test[generator.permutation(indexes)[: wanted(group, len(indexes))]] = True
    return test
