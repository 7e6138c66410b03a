"""The store: images decoded and resized once, kept as uint8 on disk, mapped by every process.

One directory per data set and settings, under ``$UNIVARFL_CACHE``, else the user's cache directory;
in it, one for the present state of the source's files. A store is written elsewhere and moved into
place when it is whole, under a lock that ends with its process: so a half-written one is never
found, and of two processes that need the same one, one waits and uses what the other built.
"""

import dataclasses
import errno
import hashlib
import json
import logging
import math
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np
import PIL
from filelock import FileLock, Timeout
from numpy.typing import NDArray

from task.data.dataset import ImageDataset
from task.data.decoding import decode_all
from task.data.sources.base import Catalogue, Source
from task.errors import DataError, system_reason

FORMAT = 1
IMAGES, INDEX, DESCRIPTION = "images.npy", "index.npz", "store.json"
PATIENCE_SECONDS = 1.0
DARK = 32

logger = logging.getLogger("univarfl")


def store_root() -> Path:
    """Where stores are kept."""
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    place = os.environ.get("UNIVARFL_CACHE") or f"{cache}/univarfl"
    return Path(place).expanduser().absolute()


def open_dataset(source: Source) -> ImageDataset:
    """A data set's images, from its store; built first where it is missing, stale or damaged.

    Raises:
        ConfigError: the source's files are not where its settings say.
        DataError: the files, or the place for the store, cannot be used.
    """
    place = store_root() / f"{name_of(source)}-{digest(dataclasses.asdict(source))}"
    with unreadable_named(source):
        if source.to_fetch():
            with only_one(place):
                if source.to_fetch():
                    source.fetch()
        dataset = load(target_of(source, place), source)
        if dataset is None:
            with only_one(place):
                target = target_of(source, place)
                dataset = load(target, source) or build(source, target)
    return dataset


def target_of(source: Source, place: Path) -> Path:
    """Where the store for the present state of the source's files is, or will be."""
    return place / digest([FORMAT, PIL.__version__, source.channels, source.fingerprint()])


@contextmanager
def unreadable_named(source: Source) -> Iterator[None]:
    """Say what it was of a source that the system would not let us read."""
    try:
        yield
    except OSError as error:
        raise DataError(f"{error.filename or name_of(source)}: {system_reason(error)}") from None


def name_of(source: Source) -> str:
    """The data set's name."""
    return type(source).__module__.rpartition(".")[2]


def digest(content: Any) -> str:
    """A short hash of plain data."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:24]


@contextmanager
def only_one(place: Path) -> Iterator[None]:
    """Keep every other process out of a store's directory."""
    lock = FileLock(place / "lock")
    with named_failure(place):
        place.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=PATIENCE_SECONDS)
        except Timeout:
            logger.info("another process prepares this data set; waiting for it ...")
            lock.acquire()
    try:
        yield
    finally:
        lock.release()


@contextmanager
def named_failure(place: Path) -> Iterator[None]:
    """Say where it was that something could not be written, and the cure."""
    try:
        yield
    except OSError as error:
        cure = "$UNIVARFL_CACHE can name another place for decoded images"
        raise DataError(f"{place}: cannot be written: {system_reason(error)}; {cure}") from None


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


def build(source: Source, target: Path) -> ImageDataset:
    """Decode a data set into `target`, and delete what is stale or half-written beside it.

    Raises:
        DataError: an image cannot be read and must not be left out, or the disk is full.
    """
    catalogue = source.catalogue()
    started, count = time.monotonic(), len(catalogue.labels)
    size = source.image_size
    logger.info("%s: preparing %d images at %dx%d, once", name_of(source), count, size, size)
    with named_failure(target.parent):
        for half_written in target.parent.glob("building-*"):
            shutil.rmtree(half_written)
        needed, free = count * size**2 * source.channels, shutil.disk_usage(target.parent).free
        if needed > free:
            short = f"{needed / 1e6:.0f} MB are needed and {free / 1e6:.0f} MB are free"
            raise OSError(errno.ENOSPC, short)
        with tempfile.TemporaryDirectory(prefix="building-", dir=target.parent) as scratch:
            draft = Path(scratch, "store")
            draft.mkdir()
            decoded = write_images(source, catalogue, draft / IMAGES)
            write_index(source, catalogue, decoded, draft)
            shutil.rmtree(target, ignore_errors=True)  # damaged, or we would not be here
            draft.rename(target)
        for stale in target.parent.iterdir():
            if stale.is_dir() and stale != target:
                shutil.rmtree(stale)
    megabytes = (target / IMAGES).stat().st_size / 1e6
    seconds = time.monotonic() - started
    logger.info("prepared in %.0f s: %.0f MB in %s", seconds, megabytes, target)
    dataset = load(target, source)
    if dataset is None:
        raise DataError(f"{target}: was written and cannot be read back; is the disk sound?")
    return dataset


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
        "format": FORMAT,
        "source": {"name": name_of(source), **dataclasses.asdict(source)},
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
