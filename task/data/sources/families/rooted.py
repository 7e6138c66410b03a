"""Data sets that lie in a directory."""

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from task.data.sources.base import Source
from task.errors import ConfigError, DataError, system_reason


@dataclass
class Rooted(Source):
    """A data set whose files a person has put somewhere.

    Attributes:
        root: the directory, absolute by the time it gets here.
    """

    root: str | None

    def expect(self) -> None:
        if not self.to_fetch():
            _ = self.directory  # raises

    @property
    def directory(self) -> Path:
        """The data set's directory.

        Raises:
            ConfigError: it was not named, or is not there.
        """
        if self.root is None:
            cure = f"say where it lies: data={self.name} data.root=DIRECTORY"
            raise ConfigError("data.root", None, cure)
        directory = Path(self.root)
        try:
            if not directory.is_dir():
                there = "is a file" if directory.exists() else "is not there"
                raise ConfigError("data.root", self.root, f"must be a directory; {there}")
        except PermissionError as error:
            raise ConfigError(
                "data.root", self.root, f"cannot be read: {system_reason(error)}"
            ) from None
        return directory


def state_of(files: Iterable[tuple[str, os.stat_result]]) -> str:
    """A hash of files' names, sizes and times of change."""
    digest = hashlib.sha256()
    for name, stat in files:
        digest.update(json.dumps([name, stat.st_size, stat.st_mtime_ns]).encode())
    return digest.hexdigest()


def expect_file(path: Path, cure: str) -> Path:
    """The path, if there is a file that can be read.

    Raises:
        DataError: there is none.
    """
    try:
        with path.open("rb"):
            return path
    except OSError as error:
        raise DataError(f"{path}: {system_reason(error)}; {cure}") from None
