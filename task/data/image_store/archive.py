"""Arrays of an uncompressed ``.npz`` file, mapped into memory."""

from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, BadZipFile, ZipFile

import numpy as np
from numpy.typing import NDArray

DAMAGED = (OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile)
FIXED = 30  # bytes of a local file header, before its name and its extra field


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
