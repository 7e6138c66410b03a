"""The image store: images are decoded and resized once, then memory-mapped by every process.

The root is ``$UNIVARFL_CACHE``, or the user's cache directory if that is not set. It has one
directory for each data set and its settings, which contains one store for the current state of the
source's files. A store is built in a temporary directory and then renamed, so that no process ever
reads half of one. A file lock, which ends with its process, makes other processes wait for a store
that is being built.
"""

import dataclasses
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
from task.data.image_store.files import load_store, write_store
from task.data.sources.base import Source
from task.errors import DataError, system_reason
from task.machine.files import from_home, make_private, require_space

FORMAT = 3  # of the store's files; another value makes all stores outdated
LEFT_OUT = (("resize", "squash"), ("subset", "own"), ("duplicates", "note"))
LOCK_SECONDS = 1.0  # before a message says what we wait for

logger = logging.getLogger("univarfl")


def store_root() -> Path:
    """Return the directory of all stores."""
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    root = os.environ.get("UNIVARFL_CACHE") or f"{cache}/univarfl"
    return from_home(root).absolute()


def open_dataset(source: Source, spare: int = 0) -> ImageDataset:
    """Open a data set from its store, which is built first if it is missing, outdated or damaged.

    Args:
        source: the images.
        spare: how many megabytes of the disk stay free; a store that would leave less is not built.

    Raises:
        ConfigError: the source's files are not where its settings say.
        DataError: the files cannot be used, or the store cannot be written.
    """
    directory = store_root() / f"{source.name}-{digest(settings_of(source))}"
    with explain_read_errors(source):
        if source.needs_download():
            with locked(directory):
                if source.needs_download():
                    source.fetch()
        dataset = load_store(store_path(source, directory), source)
        if dataset is None:
            with locked(directory):
                path = store_path(source, directory)
                dataset = load_store(path, source) or build_store(source, path, spare)
    return dataset


def settings_of(source: Source) -> dict[str, Any]:
    """Return the settings that decide a store's content; values of `LEFT_OUT` are left out.

    So stores that were built before these settings existed are still found.
    """
    settings = dataclasses.asdict(source)
    del settings["validation_share"], settings["normalisation"]
    return {key: value for key, value in settings.items() if (key, value) not in LEFT_OUT}


def dataset_version(source: Source) -> str:
    """Return a hash of the current state of the source's files, as in `ImageDataset.version`.

    Raises:
        DataError: the files cannot be read.
    """
    with explain_read_errors(source):
        return store_path(source, store_root()).name


def store_path(source: Source, directory: Path) -> Path:
    """Return the path of the store for the current state of the source's files."""
    return directory / digest([FORMAT, PIL.__version__, source.channels, source.fingerprint()])


def digest(content: Any) -> str:
    """Return a short hash of JSON data."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:24]


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
def explain_read_errors(source: Source) -> Iterator[None]:
    """Turn an OSError into a DataError that names the source's file."""
    try:
        yield
    except OSError as error:
        raise DataError(f"{error.filename or source.name}: {system_reason(error)}") from None


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
        needed = count * size**2 * source.channels
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
