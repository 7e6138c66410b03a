"""ImageNet-200: 200 classes of ImageNet-1k, drawn at random, as FedAlign (CVPR 2022) uses them.

Source: O. Russakovsky et al., "ImageNet Large Scale Visual Recognition Challenge", IJCV 2015.
FedAlign's paper gives neither the classes nor the image size. ``subset=own`` are classes that we
drew with a fixed seed. ``subset=release`` are those of FedAlign's program, which draws them with
NumPy's seed 1993, and 500 training images of each. The program draws these from a listing of the
directory without an order, so nobody can draw the same; ours are drawn from the sorted names. The
validation images are the test set.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from task.data.sources.base import DatasetIndex
from task.data.sources.families.directory_source import DirectorySource
from task.data.sources.families.tree import ImageFile, Tree, index_of_files, walk
from task.errors import ConfigError, DataError
from task.seeding import numpy_generator

WNID = re.compile(r"n\d{8}")
ALL_CLASSES = 1000
CLASSES = 200
CLASSES_SEED, RELEASE_SEED = 0, 1993
RELEASE_IMAGES = 500  # training images of a class


@dataclass
class Imagenet200(DirectorySource):
    """``train/<wnid>/*`` and ``val/<wnid>/*``, as in ``torchvision.datasets.ImageNet``.

    Class names are WordNet ids.

    Attributes:
        subset: ``own`` or ``release``.
    """

    subset: Literal["own", "release"] = field(default="own", kw_only=True)

    def fingerprint(self) -> str:
        classes = self._classes()
        parts = (tree.fingerprint for tree in self._trees(classes))
        return "/".join(classes) + "".join(parts)

    def dataset_index(self) -> DatasetIndex:
        classes = self._classes()
        paths = [
            Path(tree.root.relative_to(self.directory), *file.parts)
            for tree in self._trees(classes)
            for file in self._chosen(tree)
        ]
        names = [path.parts[1] for path in paths]
        test = np.array([path.parts[0] == "val" for path in paths], dtype=np.bool_)
        return index_of_files(self.directory, paths, classes, names, test)

    def _classes(self) -> list[str]:
        train = self.directory / "train"
        if not train.is_dir() or not (self.directory / "val").is_dir():
            raise ConfigError(
                "data.root", self.root, "must contain train/<wnid>/* and val/<wnid>/*"
            )
        found = sorted(path.name for path in train.iterdir() if WNID.fullmatch(path.name))
        if len(found) != ALL_CLASSES:
            needed = f"all {ALL_CLASSES} of ImageNet-1k are needed to draw {CLASSES}"
            raise DataError(f"{train}: {len(found)} classes; {needed}")
        if self.subset == "release":
            release = np.random.RandomState(RELEASE_SEED)
            return sorted(release.choice(found, CLASSES, replace=False).tolist())
        chosen = numpy_generator(CLASSES_SEED, "classes").choice(found, CLASSES, replace=False)
        return sorted(chosen.tolist())

    def _chosen(self, tree: Tree) -> list[ImageFile]:
        """Return the images of a class's directory that the subset has, sorted by name."""
        train = tree.root.parent.name == "train"
        if self.subset == "own" or not train or len(tree.files) <= RELEASE_IMAGES:
            return tree.files
        generator = numpy_generator(RELEASE_SEED, "images", tree.root.name)
        chosen = generator.choice(len(tree.files), RELEASE_IMAGES, replace=False)
        return [tree.files[at] for at in sorted(chosen.tolist())]

    def _trees(self, classes: list[str]) -> Iterator[Tree]:
        for part in ("train", "val"):
            for name in classes:
                directory = self.directory / part / name
                if not directory.is_dir():
                    raise DataError(f"{directory}: no such directory; each class needs one")
                yield walk(directory)
