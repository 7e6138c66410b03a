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
from task.data.image_store.decoding import failure_reason, map_in_parts
from task.data.sources.families.tree import open_image, readable
from task.errors import ConfigError, RunError, system_reason
from task.inference.classifier import Classifier
from task.machine.files import draft_of
from task.registry import named
from task.training.evaluation import BATCH_PIXELS
from univarfl.inference.images import find_images
from univarfl.inference.model import JOINT, TrainedModel, trained_model

ROWS = "univarfl.inference.rows:of_tables"  # of models of data=vectors

Predicted = tuple[str, NDArray[np.float32] | str]

logger = logging.getLogger("univarfl")


def predict(
    directory: Path, words: Sequence[str], to: Path, device: Device, client: int | None = None
) -> None:
    """Write the predictions of a run's model for some images, or rows of numbers, one row for each.

    Images that cannot be read are left out and logged.

    Args:
        directory: the run's directory.
        words: the images, see `find_images`, or the tables of rows.
        to: the CSV file. Its columns are ``image`` or ``row``, ``class``, and the probability
            ``p_CLASS`` of each class. With several labels ``class`` has all whose probability is
            above a half, with ``|`` between them.
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
    kind, examples = examples_of(model, words)
    try:
        with draft_of(to) as draft, draft.open("w", newline="", encoding="utf-8") as file:
            counts, written, left_out = write_predictions(model, kind, examples, file)
    except OSError as error:
        raise ConfigError("--to", to, f"must be writable: {system_reason(error)}") from None
    by_class = ", ".join(f"{name} {counts[name]}" for name in model.classes if counts[name])
    note = f"; {left_out} left out" if left_out else ""
    logger.info("%s: %d %ss (%s)%s", to, written, kind, by_class, note)


def examples_of(model: TrainedModel, words: Sequence[str]) -> tuple[str, Iterator[Predicted]]:
    """Return what the model's examples are called, and each of those that are named.

    Raises:
        ConfigError: there are none.
    """
    if model.classifier.takes_rows:
        return "row", named(ROWS)(model.classifier, words)
    found = probabilities(model.classifier, find_images(words))
    return "image", ((readable(str(path)), row) for path, row in found)


def write_predictions(
    model: TrainedModel, kind: str, examples: Iterator[Predicted], file: TextIO
) -> tuple[Counter[str], int, int]:
    """Write the table; return how many examples have each class, are written, and are left out.

    Raises:
        RunError: no image could be read.
    """
    write_rows(file, [[kind, "class", *(f"p_{name}" for name in model.classes)]])
    counts: Counter[str] = Counter()
    written = left_out = 0
    for example, row in examples:
        if isinstance(row, str):
            logger.warning("left out: %s: %s", example, row)
            left_out += 1
            continue
        found = model.said(row)
        write_rows(file, [[example, JOINT.join(found), *(f"{value:.6f}" for value in row)]])
        counts.update(found)
        written += 1
    if not written:
        raise RunError(f"none of {left_out} images could be read")
    return counts, written, left_out


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
        with open_image(path, classifier.window) as image:
            return classifier.decoded(image)
    except (ConfigError, MemoryError):
        raise
    except Exception as error:
        return failure_reason(error)
