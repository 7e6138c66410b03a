"""The lock of a run directory: which process writes the record."""

from pathlib import Path

from filelock import FileLock, Timeout

from task.errors import ConfigError

LOCK = ".lock"


def hold(directory: Path) -> FileLock:
    """Lock a run for this process; the system releases the lock when the process ends.

    Raises:
        ConfigError: another process has locked it.
    """
    lock = FileLock(directory / LOCK)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        allowed = "another process is running it"
        raise ConfigError("resume", directory, allowed) from None
    return lock


def is_held(directory: Path) -> bool:
    """Return whether a process has locked a run."""
    if not directory.exists():
        return False
    try:
        hold(directory).release()
    except ConfigError:
        return True
    return False
