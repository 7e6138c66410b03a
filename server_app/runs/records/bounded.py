"""Reading of files that another machine may have written: regular, not links, of a bounded size."""

import errno
import os
from pathlib import Path

from task.machine.regular import open_regular

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
