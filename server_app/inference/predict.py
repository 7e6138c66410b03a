"""``univarfl predict``: a class and probabilities for each of many images."""

import csv
import logging
import secrets
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TextIO

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from server_app.inference.images import find_images
from server_app.inference.model import TrainedModel, trained_model
from task.config import Device
from task.data.decoding import decode, in_parts, reason
from task.data.sources.families.tree import readable
from task.errors import ConfigError, RunError, system_reason
from task.evaluation import BATCH_PIXELS
from task.inference import Classifier

logger = logging.getLogger("univarfl")


def predict(directory: Path, words: Sequence[str], to: Path, device: Device) -> None:
    """Write what a run's model makes of images, a row an image; those that cannot be read are told.

    Args:
        directory: the run's.
        words: the images; see `find_images`.
        to: the CSV: ``image``, ``class``, and for each class its probability as ``p_CLASS``.
        device: where it is computed.

    Raises:
        ConfigError: there is no such run, or no images; or the file cannot be written.
        RunError: no image could be read.
    """
    to = to.resolve()
    if to.is_dir():
        raise ConfigError("--to", to, "is a directory; name a file")
    model = trained_model(directory, device)
    paths = find_images(words)
    draft = to.with_name(f"{to.name}.{secrets.token_hex(4)}.tmp")
    try:
        with draft.open("w", newline="", encoding="utf-8") as file:
            counts = write_rows(model, paths, file)
        draft.replace(to)
    except OSError as error:
        raise ConfigError("--to", to, f"must be writable: {system_reason(error)}") from None
    finally:
        draft.unlink(missing_ok=True)
    told = ", ".join(f"{name} {counts[name]}" for name in model.classes if counts[name])
    left_out = len(paths) - counts.total()
    beside = f"; {left_out} left out" if left_out else ""
    logger.info("%s: %d images (%s)%s", to, counts.total(), told, beside)


def write_rows(model: TrainedModel, paths: Sequence[Path], file: TextIO) -> Counter[str]:
    """Write the table; how many images each class has.

    Raises:
        RunError: no image could be read.
    """
    writer = csv.writer(file)
    writer.writerow(["image", "class", *(f"p_{name}" for name in model.classes)])
    counts: Counter[str] = Counter()
    for path, row in probabilities(model.classifier, paths):
        if isinstance(row, str):
            logger.warning("left out: %s: %s", readable(str(path)), row)
            continue
        name = model.classes[int(row.argmax())]
        writer.writerow([readable(str(path)), name, *(f"{value:.6f}" for value in row)])
        counts[name] += 1
    if not counts:
        raise RunError(f"none of {len(paths)} images could be read")
    return counts


def probabilities(
    classifier: Classifier, paths: Sequence[Path]
) -> Iterator[tuple[Path, NDArray[np.float32] | str]]:
    """By image, in order, the probability of each class, or why it cannot be read."""
    batch = max(1, BATCH_PIXELS // classifier.size**2)
    attempt = partial(pixels_of, size=classifier.size, channels=classifier.channels)
    named = iter(paths)
    for part in in_parts(attempt, paths, batch, "predicting"):
        decoded = list(part)
        rows = iter(classified(classifier, [x for x in decoded if not isinstance(x, str)]))
        for pixels in decoded:
            yield next(named), pixels if isinstance(pixels, str) else next(rows)


@torch.inference_mode()
def classified(classifier: Classifier, images: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
    """Probabilities [n, D] of decoded images."""
    if not images:
        return np.zeros((0, 0), np.float32)
    pixels = torch.from_numpy(np.stack(images)).to(next(classifier.parameters()).device)
    found: NDArray[np.float32] = classifier.probabilities(pixels).cpu().numpy()
    return found


def pixels_of(path: Path, size: int, channels: int) -> NDArray[np.uint8] | str:
    """An image as the network was trained on, or why it cannot be read."""
    try:
        with Image.open(path) as image:
            return decode(image, size, channels)
    except MemoryError:
        raise
    except Exception as error:
        return reason(error)
