"""``univarfl predict``: the class and the probabilities of many images."""

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TextIO

import numpy as np
import torch
from numpy.typing import NDArray

from server_app.runs.records.csv_files import write_rows
from task.config import Device
from task.data.image_store.decoding import decode, failure_reason, map_in_parts
from task.data.sources.families.tree import open_image, readable
from task.errors import ConfigError, RunError, system_reason
from task.inference.classifier import Classifier
from task.machine.files import draft_of
from task.training.evaluation import BATCH_PIXELS
from univarfl.inference.images import find_images
from univarfl.inference.model import TrainedModel, trained_model

logger = logging.getLogger("univarfl")


def predict(
    directory: Path, words: Sequence[str], to: Path, device: Device, client: int | None = None
) -> None:
    """Write the predictions of a run's model for some images, one row per image.

    Images that cannot be read are left out and logged.

    Args:
        directory: the run's directory.
        words: the images; see `find_images`.
        to: the CSV file. Its columns are ``image``, ``class``, and the probability ``p_CLASS`` of
            each class.
        device: the device to compute on.
        client: the client whose own model predicts, if each one has its own.

    Raises:
        ConfigError: there is no such run, there are no images, or the file cannot be written.
        RunError: no image could be read.
    """
    to = to.resolve()
    if to.is_dir():
        raise ConfigError("--to", to, "is a directory; name a file")
    model = trained_model(directory, device, client)
    paths = find_images(words)
    try:
        with draft_of(to) as draft, draft.open("w", newline="", encoding="utf-8") as file:
            counts = write_predictions(model, paths, file)
    except OSError as error:
        raise ConfigError("--to", to, f"must be writable: {system_reason(error)}") from None
    by_class = ", ".join(f"{name} {counts[name]}" for name in model.classes if counts[name])
    left_out = len(paths) - counts.total()
    note = f"; {left_out} left out" if left_out else ""
    logger.info("%s: %d images (%s)%s", to, counts.total(), by_class, note)


def write_predictions(model: TrainedModel, paths: Sequence[Path], file: TextIO) -> Counter[str]:
    """Write the table and return the number of images predicted as each class.

    Raises:
        RunError: no image could be read.
    """
    write_rows(file, [["image", "class", *(f"p_{name}" for name in model.classes)]])
    counts: Counter[str] = Counter()
    for path, row in probabilities(model.classifier, paths):
        if isinstance(row, str):
            logger.warning("left out: %s: %s", readable(str(path)), row)
            continue
        name = model.classes[int(row.argmax())]
        write_rows(file, [[readable(str(path)), name, *(f"{value:.6f}" for value in row)]])
        counts[name] += 1
    if not counts:
        raise RunError(f"none of {len(paths)} images could be read")
    return counts


def probabilities(
    classifier: Classifier, paths: Sequence[Path]
) -> Iterator[tuple[Path, NDArray[np.float32] | str]]:
    """Yield each image, in order, with its probabilities [D] or why it cannot be read."""
    batch = max(1, BATCH_PIXELS // classifier.size**2)
    attempt = partial(decode_file, classifier=classifier)
    named = iter(paths)
    for part in map_in_parts(attempt, paths, batch, "predicting"):
        decoded = list(part)
        rows = iter(classify(classifier, [x for x in decoded if not isinstance(x, str)]))
        for pixels in decoded:
            yield next(named), pixels if isinstance(pixels, str) else next(rows)


@torch.inference_mode()
def classify(classifier: Classifier, images: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
    """Return the probabilities [n, D] of decoded images, each [size, size, C]."""
    if not images:
        return np.zeros((0, 0), np.float32)
    pixels = torch.from_numpy(np.stack(images)).to(next(classifier.parameters()).device)
    rows: NDArray[np.float32] = classifier.probabilities(pixels).cpu().numpy()
    return rows


def decode_file(path: Path, classifier: Classifier) -> NDArray[np.uint8] | str:
    """Return an image decoded as for training, or the reason why it cannot be read."""
    try:
        with open_image(path) as image:
            return decode(image, classifier.size, classifier.channels, classifier.resize)
    except MemoryError:
        raise
    except Exception as error:
        return failure_reason(error)
