"""Paths as people write them, and files that are there whole or not at all."""

import os
import secrets
from pathlib import Path


def from_home(path: str | Path) -> Path:
    """A path whose ``~`` is the user's home; of a user who is not known here it stays as it is."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def write_whole(path: Path, content: bytes) -> None:
    """Put a file in its place in one move, on the disk itself.

    Whoever reads meanwhile, or after a power cut, finds all of it or what was there before.

    Raises:
        OSError: it cannot be written; nothing has changed.
    """
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
