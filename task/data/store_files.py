"""A store's files: the pixels as one array, the index beside them, and what describes both."""

import dataclasses
import json
import math
import os
from pathlib import Path
from typing import NamedTuple
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from task.data.dataset import ImageDataset
from task.data.decoding import decode_all
from task.data.sources.base import Catalogue, Source
from task.errors import DataError

IMAGES, INDEX, DESCRIPTION = "images.npy", "index.npz", "store.json"
DARK = 32


def load(directory: Path, source: Source) -> ImageDataset | None:
    """Map a store; None where there is none that is whole."""
    try:
        description = json.loads((directory / DESCRIPTION).read_text())
        shape = tuple(description["shape"])
        images = np.load(directory / IMAGES, mmap_mode="c" if shape[0] else None)
        with np.load(directory / INDEX) as index:
            columns = {name: index[name] for name in ("labels", "domain_of", "train", "test")}
    except (OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile):
        return None
    if images.shape != shape or len(columns["labels"]) != len(images):
        return None
    return ImageDataset(
        version=directory.name,
        images=images,
        **columns,
        classes=tuple(description["classes"]),
        domains=tuple(description["domains"]),
        mean=source.mean,
        std=source.std,
        skipped=tuple((name, reason) for name, reason in description["skipped"]),
        notes=tuple(description["notes"]),
    )


def write(source: Source, catalogue: Catalogue, directory: Path) -> None:
    """Decode a data set into an empty directory.

    Raises:
        DataError: an image cannot be read and must not be left out.
        OSError: the files cannot be written.
    """
    decoded = write_images(source, catalogue, directory / IMAGES)
    write_index(source, catalogue, decoded, directory)


class Decoded(NamedTuple):
    """What became of the images.

    Attributes:
        skipped: those that could not be decoded, with the reason.
        brightest: the largest value of any pixel.
    """

    skipped: dict[int, str]
    brightest: int

    def notes(self) -> list[str]:
        """What a person should know: 12 bits of a camera in 16-bit files come out black."""
        if self.brightest >= DARK:
            return []
        return [f"no pixel is brighter than {self.brightest} of 255; are all bits of a file used?"]


def write_images(source: Source, catalogue: Catalogue, path: Path) -> Decoded:
    """Write every image in order; those that cannot be decoded are left black."""
    one = (source.image_size, source.image_size, source.channels)
    blank = bytes(math.prod(one))
    skipped: dict[int, str] = {}
    brightest = 0
    with path.open("wb") as file:
        shape = (len(catalogue.labels), *one)
        header = {"descr": "|u1", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        for index, image in enumerate(decode_all(source, catalogue)):
            if isinstance(image, str):
                skipped[index] = image
                file.write(blank)
            else:
                brightest = max(brightest, int(image.max()))
                file.write(image.tobytes())
        file.flush()
        os.fsync(file.fileno())
    return Decoded(skipped, brightest)


def write_index(source: Source, catalogue: Catalogue, decoded: Decoded, directory: Path) -> None:
    """Write all but the pixels."""
    skipped = decoded.skipped
    usable = np.ones(len(catalogue.labels), dtype=np.bool_)
    usable[list(skipped)] = False
    if skipped and not usable.any():
        first = min(skipped)
        raise DataError(f"{catalogue.name(first)}: {skipped[first]}; nor can any other be read")
    np.savez(
        directory / INDEX,
        labels=catalogue.labels,
        domain_of=catalogue.domain_of,
        train=positions(usable & ~catalogue.test),
        test=positions(usable & catalogue.test),
    )
    description = {
        "source": {"name": source.name, **dataclasses.asdict(source)},
        "shape": [len(catalogue.labels), source.image_size, source.image_size, source.channels],
        "classes": catalogue.classes,
        "domains": catalogue.domains,
        "skipped": [(catalogue.name(index), reason) for index, reason in skipped.items()],
        "notes": [*catalogue.notes, *(decoded.notes() if usable.any() else ())],
    }
    (directory / DESCRIPTION).write_text(json.dumps(description, indent=1))


def positions(chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Where it is true, ascending."""
    return np.flatnonzero(chosen).astype(np.int64)
