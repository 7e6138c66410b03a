"""Reading of files that a person names, or another machine has placed: they must be regular."""

import errno
import os
import stat
from pathlib import Path

MOST = 2**20  # bytes


def regular(path: Path) -> Path:
    """Return the path of a file, after checking that it can be read to its end.

    Opening a named pipe waits for a writer, and a device may have no end.

    Raises:
        OSError: it is missing, or no regular file.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return path


def read_start(path: Path, most: int = MOST) -> bytes:
    """Return the first bytes of a regular file, which may be reached through links.

    Args:
        path: the file.
        most: how many bytes are read at most.

    Raises:
        OSError: it cannot be read, or is a pipe, a device or a directory.
    """
    # Opening a pipe without O_NONBLOCK would wait for its writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        kind = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(kind):
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(kind):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(most)
    finally:
        os.close(descriptor)
