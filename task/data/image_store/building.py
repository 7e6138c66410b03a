"""The building of a store: its images are decoded, once, while other processes wait."""

import dataclasses
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

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray

from task.data.dataset import Duplicates, ImageDataset, Positions
from task.data.image_store.decoding import decode_all
from task.data.image_store.store import DESCRIPTION, IMAGES, INDEX, load_store, store_path
from task.data.sources.base import DatasetIndex, Source
from task.errors import DataError, system_reason
from task.machine.files import make_private, require_space

LOCK_SECONDS = 1.0  # before a message says what we wait for
DARK = 32  # of 255; the brightest pixel of a data set that is probably decoded wrongly

logger = logging.getLogger("univarfl")


def built_dataset(source: Source, directory: Path, spare: int) -> ImageDataset:
    """Download what is missing, and build the store unless another process has built it now.

    Args:
        source: the images.
        directory: of the stores with these settings.
        spare: see `open_dataset`.

    Raises:
        ConfigError, DataError: as for `open_dataset`.
    """
    with locked(directory):
        if source.needs_download():
            source.fetch()
        path = store_path(source, directory)
        return load_store(path, source) or build_store(source, path, spare)


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Hold the lock of a data set's directory, so that no other process builds a store in it."""
    lock = FileLock(directory / "lock")
    with explain_write_errors(directory):
        make_private(directory)  # the images may be a patient's
        try:
            lock.acquire(timeout=LOCK_SECONDS)
        except Timeout:
            logger.info("another process is preparing this data set; waiting for it ...")
            lock.acquire()
    try:
        yield
    finally:
        lock.release()


@contextmanager
def explain_write_errors(directory: Path) -> Iterator[None]:
    """Turn an OSError into a DataError that names the directory and says what to do."""
    try:
        yield
    except OSError as error:
        cure = "set $UNIVARFL_CACHE to another directory for decoded images"
        raise DataError(f"{directory}: cannot be written: {system_reason(error)}; {cure}") from None


def build_store(source: Source, path: Path, spare: int = 0) -> ImageDataset:
    """Decode a data set into a new store, delete outdated ones, and return the data set.

    Raises:
        DataError: an image that must not be left out cannot be read, or the disk is full.
    """
    dataset_index = source.dataset_index()
    started, count = time.monotonic(), len(dataset_index.labels)
    size = source.image_size
    log = logger.info if count else logger.debug
    log("%s: preparing %d images at %dx%d, once", source.name, count, size, size)
    with explain_write_errors(path.parent):
        for unfinished in path.parent.glob("building-*"):
            shutil.rmtree(unfinished)
        needed = count * size**2 * source.channels * np.dtype(source.dtype).itemsize
        require_space(path.parent, needed, spare)
        with tempfile.TemporaryDirectory(prefix="building-", dir=path.parent) as scratch:
            draft = Path(scratch, "store")
            draft.mkdir()
            write_store(source, dataset_index, draft)
            shutil.rmtree(path, ignore_errors=True)  # a damaged store
            draft.rename(path)
        for outdated in path.parent.iterdir():
            if outdated.is_dir() and outdated != path:
                shutil.rmtree(outdated)
    log("prepared in %.0f s: %.0f MB in %s", time.monotonic() - started, needed / 1e6, path)
    dataset = load_store(path, source)
    if dataset is None:
        raise DataError(f"{path}: cannot be read back after writing; check the disk")
    return dataset


def write_store(source: Source, dataset_index: DatasetIndex, directory: Path) -> None:
    """Decode a data set into an empty directory.

    Raises:
        DataError: an image that must not be left out cannot be read.
        OSError: the files cannot be written.
    """
    decoded = write_images(source, dataset_index, directory / IMAGES)
    write_index(source, dataset_index, decoded, directory)


class Decoded(NamedTuple):
    """What `write_images` found out about the images.

    Attributes:
        skipped: the reason for each image that could not be decoded, by its index.
        brightest: the largest pixel value of all images.
        digest: the SHA-256 of all pixels.
        hashes: of the pixels of each image, if the source looks for duplicates; else empty.
    """

    skipped: dict[int, str]
    brightest: int
    digest: str
    hashes: list[bytes]

    def notes(self) -> list[str]:
        """Return a note if all images are dark, such as 12-bit values in 16-bit files."""
        if self.brightest >= DARK:
            return []
        cure = "check the bit depth of the files"
        return [f"no pixel is brighter than {self.brightest} of 255; {cure}"]


def write_images(source: Source, dataset_index: DatasetIndex, path: Path) -> Decoded:
    """Write all images in order; those that cannot be decoded become black."""
    image_shape = (source.image_size, source.image_size, source.channels)
    black = bytes(math.prod(image_shape) * np.dtype(source.dtype).itemsize)
    skipped: dict[int, str] = {}
    brightest, digest = 0, hashlib.sha256()
    hashes: list[bytes] = []
    with path.open("wb") as file:
        shape = (len(dataset_index.labels), *image_shape)
        descr = np.dtype(source.dtype).str
        header = {"descr": descr, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        for index, image in enumerate(decode_all(source, dataset_index)):
            if isinstance(image, str):
                skipped[index] = image
                pixels = black
            else:
                brightest = max(brightest, DARK if source.vectors else int(image.max()))
                pixels = image.tobytes()
            file.write(pixels)
            digest.update(pixels)
            if source.looks_for_duplicates:
                hashes.append(hashlib.blake2b(pixels, digest_size=16).digest())
        file.flush()
        os.fsync(file.fileno())
    return Decoded(skipped, brightest, digest.hexdigest(), hashes)


def write_index(
    source: Source, dataset_index: DatasetIndex, decoded: Decoded, directory: Path
) -> None:
    """Write the labels, the splits and the description.

    Raises:
        DataError: no image could be decoded, or one is there twice and must not be.
    """
    skipped = decoded.skipped
    usable = np.ones(len(dataset_index.labels), dtype=np.bool_)
    usable[list(skipped)] = False
    if skipped and not usable.any():
        first = min(skipped)
        raise DataError(
            f"{dataset_index.name(first)}: {skipped[first]}; no other image can be read either"
        )
    used, duplicates = without_duplicates(source, dataset_index, decoded.hashes, usable)
    train = positions(used & ~dataset_index.test)
    test = positions(used & dataset_index.test)
    columns: dict[str, Any] = {
        "labels": dataset_index.labels,
        "domain_of": dataset_index.domain_of,
        "train": train,
        "test": test,
    }
    if dataset_index.subject_of is not None:
        columns["subject_of"] = dataset_index.subject_of
    if dataset_index.targets is not None:
        columns["targets"] = dataset_index.targets
    np.savez(directory / INDEX, **columns)
    description = {
        "source": {"name": source.name, **dataclasses.asdict(source)},
        "shape": [len(dataset_index.labels), source.image_size, source.image_size, source.channels],
        "content": content_hash(decoded.digest, dataset_index, train, test),
        "classes": dataset_index.classes,
        "domains": dataset_index.domains,
        "skipped": [(dataset_index.name(index), reason) for index, reason in skipped.items()],
        "notes": [
            *dataset_index.notes,
            *(decoded.notes() if usable.any() else ()),
            *filter(None, [duplicates.note if duplicates else ""]),
        ],
        "duplicates": dataclasses.asdict(duplicates) if duplicates else None,
    }
    (directory / DESCRIPTION).write_text(json.dumps(description, indent=1))


def without_duplicates(
    source: Source, dataset_index: DatasetIndex, hashes: list[bytes], usable: NDArray[np.bool_]
) -> tuple[NDArray[np.bool_], Duplicates | None]:
    """Return which images are used, [N], and the duplicates among them.

    Raises:
        DataError: there are some, and the settings refuse them.
    """
    if not source.looks_for_duplicates:
        return usable, None
    from task.data.image_store import duplicates  # noqa: PLC0415  (only for a user's own images)

    found = duplicates.find_duplicates(hashes, dataset_index, usable)
    described = duplicates.described(found, dataset_index, usable, source.duplicates)
    if source.duplicates == "refuse" and described.note:
        raise DataError(described.note)
    return usable & ~found.dropped if source.duplicates == "drop" else usable, described


def content_hash(
    pixels: str, dataset_index: DatasetIndex, train: Positions, test: Positions
) -> str:
    """Return a hash of a data set that does not depend on where or when its files were written."""
    names = [pixels, dataset_index.classes, dataset_index.domains]
    digest = hashlib.sha256(json.dumps(names).encode())
    columns = [dataset_index.labels, dataset_index.domain_of, train, test]
    if dataset_index.subject_of is not None:
        columns.append(dataset_index.subject_of)
    if dataset_index.targets is not None:
        columns.append(dataset_index.targets.astype(np.int64))
    for column in columns:
        digest.update(len(column).to_bytes(8, "little") + column.astype("<i8").tobytes())
    return digest.hexdigest()[:24]


def positions(mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the positions where a mask is true, ascending."""
    return np.flatnonzero(mask).astype(np.int64)
