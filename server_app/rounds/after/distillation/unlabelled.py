"""Images in a directory of any layout, read without labels."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from task.data.dataset import ImageDataset
from task.data.image_store.store import open_dataset
from task.data.sources.base import DatasetIndex, Source
from task.data.sources.families.directory_source import DirectorySource
from task.data.sources.families.tree import index_of_files, walk
from task.errors import ConfigError

KEY, NO_LABEL = "after.images", "image"


@dataclass
class UnlabelledImages(DirectorySource):
    """Every image below a directory, down to four levels; all of them have the same label."""

    skips_bad_images: ClassVar = True

    def fingerprint(self) -> str:
        return walk(self.directory).fingerprint

    def dataset_index(self) -> DatasetIndex:
        tree = walk(self.directory)
        paths = [Path(*file.parts) for file in tree.files]
        names, test = [NO_LABEL] * len(paths), np.zeros(len(paths), dtype=np.bool_)
        return index_of_files(tree.root, paths, [NO_LABEL], names, test)


def open_unlabelled(path: str, like: Source) -> ImageDataset:
    """Return the images below a directory, resized and normalised like another data set.

    Raises:
        ConfigError: there is no such directory, or it holds no image.
        DataError: a file cannot be opened, or the images cannot be stored.
    """
    if not Path(path).is_dir():
        raise ConfigError(KEY, path, "must be a directory of images")
    if not walk(Path(path)).files:
        raise ConfigError(KEY, path, "contains no images; name a directory with images")
    own = {"__module__": __name__, "channels": like.channels, "mean": like.mean, "std": like.std}
    kind = type("UnlabelledLikeData", (UnlabelledImages,), own)
    source: Source = kind(
        root=path, image_size=like.image_size, resize=like.resize, normalisation=like.normalisation
    )
    return open_dataset(source)
