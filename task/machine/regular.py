"""Reading of files that a person names, or another machine has placed: they must be regular."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

MOST = 2**20  # bytes
LARGEST_RECORD = 8 << 20  # bytes of run.json
LARGEST_TABLE = 16 << 20  # bytes that are read of a table


def regular(path: Path) -> Path:
    """Return the path of a file, after checking that it can be read to its end.

    Opening a named pipe waits for a writer, and a device may have no end.

    Raises:
        OSError: it is missing, or no regular file.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return path


@contextmanager
def open_regular(path: Path, *, links: bool = False) -> Iterator[BinaryIO]:
    """Open a regular file for reading.

    Args:
        path: the file.
        links: whether the path may be a link.

    Raises:
        OSError: it is missing, a link, a directory, or no regular file.
    """
    # Opening a pipe without O_NONBLOCK would wait for its writer.
    more = os.O_NONBLOCK | (0 if links else os.O_NOFOLLOW)
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | more)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        yield file


def read_start(path: Path, most: int = MOST) -> bytes:
    """Return the first bytes of a regular file, which may be reached through links.

    Args:
        path: the file.
        most: how many bytes are read at most.

    Raises:
        OSError: it cannot be read, or is a pipe, a device or a directory.
    """
    with open_regular(path, links=True) as file:
        return file.read(most)


def read_bounded(path: Path, most: int) -> str:
    """Return the text of a regular file; undecodable bytes are replaced.

    Raises:
        OSError: it is missing, larger than `most` bytes, a link, or no regular file.
    """
    text, cut = read_end(path, most)
    if cut:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
    return text


def read_end(path: Path, most: int) -> tuple[str, bool]:
    """Return the last `most` bytes of a regular file as text, and whether others are before them.

    Raises:
        OSError: it is missing, a link, or no regular file.
    """
    with open_regular(path) as file:
        before = max(os.fstat(file.fileno()).st_size - most, 0)
        file.seek(before)
        return file.read(most).decode("utf-8", errors="replace"), before > 0
