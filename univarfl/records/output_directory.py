"""Directories for what is made from records."""

import errno
from pathlib import Path


def make_output_directory(path: Path) -> None:
    """Create a directory, and missing parents, if there is none.

    Raises:
        OSError: it cannot be created, or is a link: files of another place would be replaced.
    """
    if path.is_symlink():
        raise OSError(errno.ELOOP, "is a symbolic link; give the path of its target", str(path))
    path.mkdir(parents=True, exist_ok=True)
