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
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import PIL
from filelock import FileLock, Timeout

from task.data.dataset import ImageDataset
from task.data.sources.base import Source
from task.data.store_files import load, write
from task.errors import DataError, system_reason
from task.files import from_home

FORMAT = 1  # of the files; another one makes every store stale
PATIENCE_SECONDS = 1.0

logger = logging.getLogger("univarfl")


def store_root() -> Path:
    """Where stores are kept."""
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    place = os.environ.get("UNIVARFL_CACHE") or f"{cache}/univarfl"
    return from_home(place).absolute()


def open_dataset(source: Source) -> ImageDataset:
    """A data set's images, from its store; built first where it is missing, stale or damaged.

    Raises:
        ConfigError: the source's files are not where its settings say.
        DataError: the files, or the place for the store, cannot be used.
    """
    place = store_root() / f"{source.name}-{digest(dataclasses.asdict(source))}"
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
        raise DataError(f"{error.filename or source.name}: {system_reason(error)}") from None


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


def build(source: Source, target: Path) -> ImageDataset:
    """Decode a data set into `target`, and delete what is stale or half-written beside it.

    Raises:
        DataError: an image cannot be read and must not be left out, or the disk is full.
    """
    catalogue = source.catalogue()
    started, count = time.monotonic(), len(catalogue.labels)
    size = source.image_size
    tell = logger.info if count else logger.debug
    tell("%s: preparing %d images at %dx%d, once", source.name, count, size, size)
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
            write(source, catalogue, draft)
            shutil.rmtree(target, ignore_errors=True)  # damaged, or we would not be here
            draft.rename(target)
        for stale in target.parent.iterdir():
            if stale.is_dir() and stale != target:
                shutil.rmtree(stale)
    seconds = time.monotonic() - started
    tell("prepared in %.0f s: %.0f MB in %s", seconds, needed / 1e6, target)
    dataset = load(target, source)
    if dataset is None:
        raise DataError(f"{target}: was written and cannot be read back; is the disk sound?")
    return dataset
