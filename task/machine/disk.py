"""The free space of a disk. A site's owner can keep a part of it free."""

import shutil
from pathlib import Path

MEGABYTE = 1_000_000


class SpaceError(OSError):
    """A disk has too little free space; nothing was written."""


def existing_parent(directory: Path) -> Path:
    """Return a directory or, if it does not exist, the nearest one above it that does.

    Raises:
        OSError: that cannot be found out.
    """
    directory = directory.absolute()
    while not directory.exists():
        directory = directory.parent
    return directory


def require_space(directory: Path, needed: int, spare: int = 0) -> None:
    """Check that the disk has room, before something is computed or written.

    Args:
        directory: where it will be written.
        needed: its size in bytes.
        spare: how many megabytes must be free afterwards: a site's ``keep-free-megabytes``.

    Raises:
        SpaceError: it has not.
        OSError: that cannot be found out.
    """
    free = shutil.disk_usage(existing_parent(directory)).free
    if needed + spare * MEGABYTE > free:
        rule = f", {spare} MB must stay free (keep-free-megabytes)" if spare else ""
        raise SpaceError(
            f"the disk has too little free space: {needed / MEGABYTE:.0f} MB are needed{rule}, and "
            f"{free / MEGABYTE:.0f} MB are free"
        )
