"""Directories for runs, and for what is made from their records."""

import errno
import os
from pathlib import Path

from task.machine.files import from_home


def make_output_directory(path: Path) -> None:
    """Create a directory, and missing parents, if there is none.

    Raises:
        OSError: it cannot be created, or is a link: files of another place would be replaced.
    """
    if path.is_symlink():
        raise OSError(errno.ELOOP, "is a symbolic link; give the path of its target", str(path))
    path.mkdir(parents=True, exist_ok=True)


def runs_parent(given: str | None = None) -> Path:
    """Return the absolute parent of run directories: `given`, else $UNIVARFL_RUNS, else ./runs."""
    return from_home(given or os.environ.get("UNIVARFL_RUNS") or "runs").absolute()
