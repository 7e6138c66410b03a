"""The files of a store: pixels, labels, splits and a description, mapped into memory."""

import dataclasses
import hashlib
import json
import math
import os
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import ZIP_STORED, BadZipFile, ZipFile

import numpy as np
from numpy.typing import NDArray

from task.data.dataset import Duplicates, ImageDataset, Positions
from task.data.sources.base import DatasetIndex, Source
from task.errors import DataError
from task.registry import named

DAMAGED = (OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile)
FIXED = 30  # bytes of a local file header, before its name and its extra field
IMAGES, INDEX, DESCRIPTION = "images.npy", "index.npz", "store.json"
DARK = 32  # of 255; the brightest pixel of a data set that is probably decoded wrongly
DECODE = "task.data.image_store.decoding:decode_all"  # it is needed once for each store


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
    )


def read_duplicates(found: dict[str, Any] | None) -> Duplicates | None:
    """Return what a store's description says of duplicates."""
    if found is None:
        return None
    return Duplicates(**{**found, "listed": tuple(map(tuple, found["listed"]))})


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
    black = bytes(math.prod(image_shape))
    skipped: dict[int, str] = {}
    brightest, digest = 0, hashlib.sha256()
    hashes: list[bytes] = []
    with path.open("wb") as file:
        shape = (len(dataset_index.labels), *image_shape)
        header = {"descr": "|u1", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        for index, image in enumerate(named(DECODE)(source, dataset_index)):
            if isinstance(image, str):
                skipped[index] = image
                pixels = black
            else:
                brightest = max(brightest, int(image.max()))
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
    for column in columns:
        digest.update(len(column).to_bytes(8, "little") + column.astype("<i8").tobytes())
    return digest.hexdigest()[:24]


def positions(mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the positions where a mask is true, ascending."""
    return np.flatnonzero(mask).astype(np.int64)
