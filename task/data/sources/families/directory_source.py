"""Data sets in a directory that the user names."""

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from task.data.sources.base import Source
from task.errors import ConfigError, DataError, system_reason


@dataclass
class DirectorySource(Source):
    """A data set whose files are in a directory.

    Attributes:
        root: the directory. A path that is typed may be relative to the current directory.
    """

    root: str | None

    def check_files(self) -> None:
        if not self.needs_download():
            _ = self.directory  # raises

    @property
    def directory(self) -> Path:
        """The data set's directory.

        Raises:
            ConfigError: it was not named, or does not exist.
        """
        if self.root is None:
            cure = "name the data set's directory: add data.root=DIRECTORY"
            if hasattr(self, "download"):
                cure += ", or data.download=true to fetch it into $DATA or ./data"
            raise ConfigError("data.root", None, cure)
        directory = Path(self.root)
        try:
            if not directory.is_dir():
                what = "it is a file" if directory.exists() else "it does not exist"
                raise ConfigError("data.root", self.root, f"must be a directory; {what}")
        except PermissionError as error:
            raise ConfigError(
                "data.root", self.root, f"cannot be read: {system_reason(error)}"
            ) from None
        return directory


def hash_of_states(files: Iterable[tuple[str, os.stat_result]]) -> str:
    """Return a hash of files' names, sizes and times of change."""
    digest = hashlib.sha256()
    for name, stat in files:
        digest.update(json.dumps([name, stat.st_size, stat.st_mtime_ns]).encode())
    return digest.hexdigest()


def require_file(path: Path, cure: str) -> Path:
    """Return the path, after checking that it is a readable regular file; a pipe would wait.

    Args:
        path: the file.
        cure: what the user can do if it is missing.

    Raises:
        DataError: it is not.
    """
    try:
        if path.exists() and not path.is_file():
            raise DataError(f"{path}: is no regular file; {cure}")
        with path.open("rb"):
            return path
    except OSError as error:
        raise DataError(f"{path}: {system_reason(error)}; {cure}") from None
