"""ImageNet-200: 200 classes of ImageNet-1k, drawn at random, as FedAlign (CVPR 2022) uses them.

Source: O. Russakovsky et al., "ImageNet Large Scale Visual Recognition Challenge", IJCV 2015.
FedAlign gives neither the classes nor the image size. Our classes are drawn with a fixed seed, and
our images have 64x64 pixels. The validation images are the test set.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from task.data.sources.base import DatasetIndex
from task.data.sources.families.directory_source import DirectorySource
from task.data.sources.families.tree import Tree, index_of_files, walk
from task.errors import ConfigError, DataError
from task.seeding import numpy_generator

WNID = re.compile(r"n\d{8}")
ALL_CLASSES = 1000
CLASSES = 200
CLASSES_SEED = 0


@dataclass
class Imagenet200(DirectorySource):
    """``train/<wnid>/*`` and ``val/<wnid>/*``, as in ``torchvision.datasets.ImageNet``.

    Class names are WordNet ids.
    """

    def fingerprint(self) -> str:
        classes = self._classes()
        parts = (tree.fingerprint for tree in self._trees(classes))
        return "/".join(classes) + "".join(parts)

    def dataset_index(self) -> DatasetIndex:
        classes = self._classes()
        paths = [
            Path(tree.root.relative_to(self.directory), *file.parts)
            for tree in self._trees(classes)
            for file in tree.files
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
        chosen = numpy_generator(CLASSES_SEED, "classes").choice(found, CLASSES, replace=False)
        return sorted(chosen.tolist())

    def _trees(self, classes: list[str]) -> Iterator[Tree]:
        for part in ("train", "val"):
            for name in classes:
                directory = self.directory / part / name
                if not directory.is_dir():
                    raise DataError(f"{directory}: no such directory; each class needs one")
                yield walk(directory)
