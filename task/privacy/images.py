"""Which images a directory holds, by what is in their files."""

import hashlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from task.machine.files import walk_links

Hashes = NDArray[np.uint64]


def image_hashes(directory: Path) -> Hashes:
    """Return a hash of the content of each file in a directory, ascending and without repetition.

    Renamed, copied and moved files keep their hash.

    Raises:
        OSError: a file or a directory cannot be read.
    """
    found = set()
    for place, _, names in walk_links(directory, once=True):
        for name in names:
            path = place / name
            if path.is_file():
                found.add(content_hash(path))
    return np.array(sorted(found), np.uint64)


def content_hash(path: Path) -> int:
    """Return the first 64 bits of the SHA-256 of a file's content."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").digest()
    return int.from_bytes(digest[:8], "big")
