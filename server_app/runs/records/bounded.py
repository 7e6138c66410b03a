"""Reading of files that another machine may have written: regular, not links, of a bounded size."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

LARGEST_RECORD = 8 << 20  # bytes of run.json
LARGEST_TABLE = 16 << 20  # bytes that are read of a table


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


@contextmanager
def open_regular(path: Path) -> Iterator[BinaryIO]:
    """Open a regular file for reading.

    Raises:
        OSError: it is missing, a link, or no regular file.
    """
    # Opening a pipe without O_NONBLOCK would wait for a writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        yield file
