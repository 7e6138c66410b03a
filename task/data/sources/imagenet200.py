"""ImageNet-200: 200 classes of ImageNet-1k, drawn at random, as FedAlign (CVPR 2022) uses them.

Source: O. Russakovsky et al., "ImageNet Large Scale Visual Recognition Challenge", IJCV 2015.
FedAlign does not say which classes; ours are drawn with a seed of their own. The validation images
are the test set. It gives no image size either; ours is 64.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from task.data.sources.base import Catalogue
from task.data.sources.families.rooted import Rooted
from task.data.sources.families.tree import Tree, file_catalogue, walk
from task.errors import ConfigError, DataError
from task.seeding import numpy_generator

WNID = re.compile(r"n\d{8}")
ALL_CLASSES = 1000
CLASSES = 200
CLASSES_SEED = 0


@dataclass
class Imagenet200(Rooted):
    """``train/<wnid>/*`` and ``val/<wnid>/*``, as ``torchvision.datasets.ImageNet`` lays them out.

    A class is named by its WordNet id.
    """

    def fingerprint(self) -> str:
        classes = self._classes()
        parts = (tree.fingerprint for tree in self._trees(classes))
        return "/".join(classes) + "".join(parts)

    def catalogue(self) -> Catalogue:
        classes = self._classes()
        paths = [
            Path(tree.root.relative_to(self.directory), *file.parts)
            for tree in self._trees(classes)
            for file in tree.files
        ]
        names = [path.parts[1] for path in paths]
        test = np.array([path.parts[0] == "val" for path in paths], dtype=np.bool_)
        return file_catalogue(self.directory, paths, classes, names, test)

    def _classes(self) -> list[str]:
        train = self.directory / "train"
        if not train.is_dir() or not (self.directory / "val").is_dir():
            raise ConfigError("data.root", self.root, "must hold train/<wnid>/* and val/<wnid>/*")
        found = sorted(path.name for path in train.iterdir() if WNID.fullmatch(path.name))
        if len(found) != ALL_CLASSES:
            drawn = f"{CLASSES} are drawn from all {ALL_CLASSES} of ImageNet-1k"
            raise DataError(f"{train}: {len(found)} classes; {drawn}")
        chosen = numpy_generator(CLASSES_SEED, "classes").choice(found, CLASSES, replace=False)
        return sorted(chosen.tolist())

    def _trees(self, classes: list[str]) -> Iterator[Tree]:
        for part in ("train", "val"):
            for name in classes:
                directory = self.directory / part / name
                if not directory.is_dir():
                    raise DataError(f"{directory}: no such directory; every class needs one")
                yield walk(directory)
