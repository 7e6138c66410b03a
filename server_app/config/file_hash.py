"""The hash of a file that an experiment names, so that a changed file is another experiment."""

import functools
import hashlib
from pathlib import Path

from task.errors import ConfigError, system_reason
from task.machine.regular import regular


def hash_of(key: str, path: Path, expected: str) -> str:
    """Return the SHA-256 of a file.

    Args:
        key: the setting that names it.
        path: the file.
        expected: what the setting must be, for the error.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        status = regular(path).stat()
        return _hash(path, status.st_mtime_ns, status.st_size, status.st_ino)
    except OSError as error:
        reason = f"cannot be read: {system_reason(error)}; {expected}"
        raise ConfigError(key, path, reason) from None


def require_unchanged(key: str, path: Path, sha256: str, expected: str) -> None:
    """Refuse a file that has changed since the run was composed.

    Args:
        key: the setting that names it.
        path: the file.
        sha256: its hash when the run was composed.
        expected: what the setting must be, for the error of a file that cannot be read.

    Raises:
        ConfigError: it has changed, or cannot be read.
    """
    if hash_of(key, path, expected) != sha256:
        allowed = "the file has changed since the run was composed; start a new run"
        raise ConfigError(key, path, allowed)


@functools.lru_cache(maxsize=8)
def _hash(path: Path, *state: int) -> str:
    """Return the SHA-256 of a file in a state; a sweep composes many runs with one file."""
    del state
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
