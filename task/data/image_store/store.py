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
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, BadZipFile, ZipFile

import numpy as np
import PIL
from numpy.typing import NDArray

from task.data.dataset import Duplicates, ImageDataset
from task.data.sources.base import Source
from task.errors import DataError, system_reason
from task.machine.files import from_home
from task.registry import named

FORMAT = 3  # of the store's files; another value makes all stores outdated
LEFT_OUT = (
    ("resize", "squash"), ("interpolation", "bilinear"), ("subset", "own"), ("window", None),
    ("duplicates", "note"),
)  # fmt: skip
BUILD = "task.data.image_store.building:built_dataset"  # it is needed once for each store
IMAGES, INDEX, DESCRIPTION = "images.npy", "index.npz", "store.json"
DAMAGED = (OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile)
FIXED = 30  # bytes of a local file header, before its name and its extra field


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
        dataset: ImageDataset | None = None
        if not source.needs_download():
            dataset = load_store(store_path(source, directory), source)
        if dataset is None:
            dataset = named(BUILD)(source, directory, spare)
    return dataset


def settings_of(source: Source) -> dict[str, Any]:
    """Return the settings that decide a store's content; values of `LEFT_OUT` are left out.

    So stores that were built before these settings existed are still found.
    """
    settings = dataclasses.asdict(source)
    return {
        key: value
        for key, value in settings.items()
        if key not in source.unstored and (key, value) not in LEFT_OUT
    }


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
def explain_read_errors(source: Source) -> Iterator[None]:
    """Turn an OSError into a DataError that names the source's file."""
    try:
        yield
    except OSError as error:
        raise DataError(f"{error.filename or source.name}: {system_reason(error)}") from None


def load_store(directory: Path, source: Source) -> ImageDataset | None:
    """Memory-map a store, or return None if it is missing or damaged."""
    try:
        description = json.loads((directory / DESCRIPTION).read_text())
        shape, content = tuple(description["shape"]), description["content"]
        images = np.load(directory / IMAGES, mmap_mode="c" if shape[0] else None)
        index = map_archive(directory / INDEX)
        columns = {name: index[name] for name in ("labels", "domain_of", "train", "test")}
        twice = read_duplicates(description["duplicates"])
    except DAMAGED:
        return None
    if images.shape != shape or len(columns["labels"]) != len(images):
        return None
    mean, std = source.mean_and_std
    return ImageDataset(
        version=directory.name,
        content=content,
        images=images,
        **columns,
        classes=tuple(description["classes"]),
        domains=tuple(description["domains"]),
        mean=mean,
        std=std,
        skipped=tuple((name, reason) for name, reason in description["skipped"]),
        notes=tuple(description["notes"]),
        subject_of=index.get("subject_of"),
        duplicates=twice,
        targets=index.get("targets"),
    )


def read_duplicates(found: dict[str, Any] | None) -> Duplicates | None:
    """Return what a store's description says of duplicates."""
    if found is None:
        return None
    return Duplicates(**{**found, "listed": tuple(map(tuple, found["listed"]))})


def map_archive(path: Path) -> dict[str, NDArray[Any]]:
    """Memory-map all arrays of a file that `numpy.savez` wrote, after checking their checksums.

    Writing to an array changes this process's copy alone.

    Raises:
        OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile: it is missing or damaged.
    """
    arrays = {}
    with ZipFile(path) as archive, path.open("rb") as file:
        if damaged := archive.testzip():
            raise BadZipFile(f"{path}: {damaged} is damaged")
        for member in archive.infolist():
            if member.compress_type != ZIP_STORED:
                raise ValueError(f"{path}: {member.filename} is compressed")
            file.seek(member.header_offset)
            header = file.read(FIXED)
            lengths = (int.from_bytes(header[at : at + 2], "little") for at in (26, 28))
            file.seek(member.header_offset + FIXED + sum(lengths))
            name = member.filename.removesuffix(".npy")
            arrays[name] = map_array(path, file)
    return arrays


def map_array(path: Path, file: Any) -> NDArray[Any]:
    """Memory-map the array whose ``.npy`` header begins at a file's position.

    Raises:
        ValueError: it is none, or holds Python objects.
    """
    version = np.lib.format.read_magic(file)
    read = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }[version]
    shape, _, kind = read(file)
    if kind.hasobject:
        raise ValueError(f"{path}: holds Python objects")
    if 0 in shape:
        return np.empty(shape, kind)
    mapped = np.memmap(path, kind, mode="c", offset=file.tell(), shape=shape)
    return np.asarray(mapped)
