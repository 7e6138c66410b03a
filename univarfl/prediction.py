"""Predictions as a data frame."""

import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from PIL import Image

import univarfl.application  # noqa: F401

# isort: split

from task.errors import ConfigError, RunError
from task.inference.classifier import Classifier
from task.machine.files import from_home
from task.registry import named
from task.training.evaluation import BATCH_PIXELS
from univarfl.inference.images import find_images
from univarfl.inference.model import JOINT, trained_model
from univarfl.inference.predict import classify, probabilities
from univarfl.settings_kept import settings_kept

ROWS = "univarfl.inference.rows:of_tables"  # of models of data=vectors

Row = tuple[Any, NDArray[np.float32]]


def predict(
    directory: Path, images: Any, device: Literal["auto", "cpu", "cuda"], client: int | None
) -> pd.DataFrame:
    """Return the predictions of a run's model; see `univarfl.Run.predict`."""
    if isinstance(images, str | Path):
        images = [images]
    are_paths = isinstance(images, Sequence) and all(isinstance(x, str | Path) for x in images)
    if are_paths and not images:
        raise ConfigError("images", images, "names no image")
    with settings_kept():
        model = trained_model(directory, device, client)
        kind = "row" if model.classifier.takes_rows else "image"
        rows = list(
            named(ROWS)(model.classifier, images if are_paths else [images])
            if model.classifier.takes_rows
            else of_files(model.classifier, [str(from_home(path)) for path in images])
            if are_paths
            else of_array(model.classifier, images)
        )
    values = np.stack([row for _, row in rows])
    names = [JOINT.join(model.said(row)) for row in values]
    frame = pd.DataFrame({kind: [image for image, _ in rows], "class": names})
    return frame.join(pd.DataFrame(values, columns=[f"p_{name}" for name in model.classes]))


def of_files(classifier: Classifier, words: Sequence[str]) -> Iterator[Row]:
    """Yield each image file that can be read, and its probabilities [D].

    Raises:
        ConfigError: a word names no image.
        RunError: no image can be read.
    """
    paths = find_images(words)
    read = 0
    for path, row in probabilities(classifier, paths):
        if isinstance(row, str):
            warnings.warn(f"left out: {path}: {row}", stacklevel=4)
            continue
        read += 1
        yield str(path), row
    if not read:
        raise RunError(f"none of {len(paths)} images could be read")


def of_array(classifier: Classifier, images: Any) -> Iterator[Row]:
    """Yield the index of each image of an array, and its probabilities [D].

    Raises:
        ConfigError: it is not an array of images.
    """
    form = "must be paths, or uint8 [n, h, w] or [n, h, w, C]"
    try:
        array = np.asarray(images)
    except ValueError:
        raise ConfigError("images", "images of several sizes", form) from None
    channels = array.shape[3] if array.ndim == 4 else 1
    if array.dtype != np.uint8 or array.ndim not in (3, 4) or channels not in (1, 3, 4):
        found = f"{array.dtype}{list(array.shape)}"
        raise ConfigError("images", found, form)
    if array.ndim == 3 and array.shape[2] in (3, 4):
        allowed = f"{form}; if it is one colour image, give images[None]"
        raise ConfigError("images", f"uint8{list(array.shape)}", allowed)
    if not array.size:
        raise ConfigError("images", f"{list(array.shape)}", "has no image")
    if channels == 1:
        array = array.reshape(array.shape[:3])
    batch = max(1, BATCH_PIXELS // classifier.size**2)
    for first in range(0, len(array), batch):
        part = [classifier.decoded(Image.fromarray(each)) for each in array[first : first + batch]]
        yield from enumerate(classify(classifier, part), first)
