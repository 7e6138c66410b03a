"""The locks of a run directory: which process writes the record, and which command runs it.

A run that Flower starts is written by another process than the command that follows it. So the
command has a lock of its own, which it holds from before the run starts until after it has ended.
"""

import fcntl
import os
from pathlib import Path

from filelock import FileLock, Timeout

from task.errors import ConfigError

LOCK, COMMAND_LOCK = ".lock", ".command.lock"
PATIENCE_SECONDS = 1.0


def hold(directory: Path, name: str = LOCK) -> FileLock:
    """Lock a run for this process; the system releases the lock when the process ends.

    Args:
        directory: the run directory.
        name: of the lock.

    Raises:
        ConfigError: another process has locked it.
    """
    lock = FileLock(directory / name)
    try:
        # `is_locked` has the lock for a moment, too.
        lock.acquire(PATIENCE_SECONDS, poll_interval=0.02)
    except Timeout:
        allowed = "another process is running it"
        raise ConfigError("resume", directory, allowed) from None
    return lock


def is_locked(path: Path) -> bool:
    """Return whether a process has locked a file; a missing file is not locked.

    It only reads the file, so it also works in a directory that cannot be written.

    Raises:
        OSError: the file cannot be opened.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(descriptor)  # which releases the lock
