"""Directories and files: where they are, their free space, and writing them whole or not at all."""

import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:  # commands that only write files do not need NumPy
    import numpy as np
    from numpy.typing import NDArray

ONLY_OWNER = 0o700  # the rights of a directory that no other user may open
OTHERS = 0o077  # the rights of other users
ONLY_READER = 0o600  # the rights of a file that no other user may read
AT_ONCE = 1 << 20  # bytes that are read at a time
DIGEST = "sha256"  # the metadata entry of a safetensors file with its digest
ANY_ROUND = "round-*.safetensors"
ROUND_FILE = re.compile(r"round-(\d{1,9})\.safetensors", re.ASCII)
MEGABYTE = 1_000_000

Mark = tuple[int, str]  # a number of bytes from the start of a file, and their SHA-256


def from_home(path: str | Path) -> Path:
    """Return the path with ``~`` replaced by the home directory, unchanged if that is unknown."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def walk_links(
    root: Path, on_error: Callable[[OSError], object] | None = None, once: bool = False
) -> Iterator[tuple[Path, list[str], list[str]]]:
    """Yield each directory below a root as `os.walk` does, following links, but never in a circle.

    This is the one walk through directories of images.

    Args:
        root: the directory.
        on_error: gets the error of a directory that cannot be listed; None raises it.
        once: whether a directory that several links lead to is yielded once only.

    Yields:
        A directory, and the names of its directories and of its other files. A caller may remove
        or sort names of directories.

    Raises:
        OSError: a directory cannot be listed, and `on_error` is None.
    """
    above: dict[str, frozenset[tuple[int, int]]] = {}
    seen: set[tuple[int, int]] = set()
    for place, below, names in os.walk(root, onerror=on_error or raised, followlinks=True):
        status = os.stat(place)  # noqa: PTH116  (a link in a circle leads to a directory above)
        directory = status.st_dev, status.st_ino
        higher = above.get(os.path.dirname(place), frozenset())  # noqa: PTH120
        if directory in (seen if once else higher):
            below.clear()
            continue
        seen.add(directory)
        above[place] = higher | {directory}
        yield Path(place), below, names


def raised(error: OSError) -> None:
    """Raise an error that `os.walk` would pass over."""
    raise error


def write_whole(path: Path, content: bytes) -> None:
    """Replace a file atomically; see `draft_of`.

    Raises:
        OSError: it cannot be written; nothing has changed.
    """
    with draft_of(path) as draft:
        draft.write_bytes(content)


def create_whole(path: Path, content: bytes) -> bool:
    """Create a file atomically; return False, and leave the file alone, if it exists.

    Raises:
        OSError: it cannot be written; nothing has changed.
    """
    draft = _draft_path(path)
    try:
        draft.write_bytes(content)
        _flush(draft)
        path.hardlink_to(draft)  # unlike a rename, this never replaces a file
    except FileExistsError:
        return False
    finally:
        draft.unlink(missing_ok=True)
    _flush(path.parent)
    return True


def write_secret(path: Path, content: bytes) -> None:
    """Write a new file that only its owner can read.

    Raises:
        OSError: it exists or cannot be written.
    """
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, ONLY_READER), "wb") as file:  # noqa: PTH123
        file.write(content)


def make_private(directory: Path) -> None:
    """Create a directory that only its owner opens, and missing parents, through to the disk.

    Raises:
        OSError: it cannot be created.
    """
    if not directory.is_dir():
        make_private(directory.parent)
        directory.mkdir(mode=ONLY_OWNER, exist_ok=True)
        _flush(directory.parent)


@contextmanager
def draft_of(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; what is written there replaces `path` at the end.

    A reader finds the whole new file or the old one, also after a power failure. If the block
    raises, `path` is unchanged.

    Raises:
        OSError: the file cannot be written; nothing has changed.
    """
    draft = _draft_path(path)
    try:
        yield draft
        _flush(draft)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    _flush(path.parent)


def mark_of(file: BinaryIO, most: int | None = None) -> Mark:
    """Return the mark of a file that is open at its start, or of its first `most` bytes."""
    hashed, length = _hashed(file, most)
    return length, hashed.hexdigest()


class GrowingFile:
    """A file to which whole blocks are added, each flushed to the disk.

    Args:
        path: the file; it is created if it is missing.
        kept: how many bytes of it stay; the others are removed.

    Raises:
        OSError: it cannot be read or written.
    """

    def __init__(self, path: Path, kept: int = 0) -> None:
        self._path = path
        with path.open("ab"):
            os.truncate(path, kept)
        with path.open("rb") as file:
            self._hashed, self._length = _hashed(file, None)

    @property
    def mark(self) -> Mark:
        """The mark of the whole file."""
        return self._length, self._hashed.hexdigest()

    def append(self, content: bytes) -> None:
        """Add a block.

        Raises:
            OSError: it cannot be written; the file is as it was, if the system allows that.
        """
        try:
            with self._path.open("ab") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            with suppress(OSError):
                os.truncate(self._path, self._length)
            raise
        self._hashed.update(content)
        self._length += len(content)


def _hashed(file: BinaryIO, most: int | None) -> "tuple[hashlib._Hash, int]":
    """Return the hash of a file's first bytes, and how many they are."""
    hashed, length = hashlib.sha256(), 0
    while content := file.read(AT_ONCE if most is None else min(AT_ONCE, most - length)):
        hashed.update(content)
        length += len(content)
    return hashed, length


def _draft_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.{secrets.token_hex(4)}.tmp")


def _flush(path: Path) -> None:
    """Write a file or a directory through to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def digest(facts: str, arrays: "Mapping[str, NDArray[np.generic]]") -> str:
    """Return the SHA-256 of a text and of arrays with their names, types and shapes."""
    found = hashlib.sha256(facts.encode())
    for name in sorted(arrays):
        value = arrays[name]
        found.update(f"{name} {value.dtype} {value.shape}".encode())
        found.update(value.tobytes())
    return found.hexdigest()


def user_state_directory() -> Path:
    """Return this program's directory for lasting state: ``$XDG_STATE_HOME/univarfl``.

    Without that variable it is ``~/.local/state/univarfl``.
    """
    return from_home(os.environ.get("XDG_STATE_HOME") or "~/.local/state") / "univarfl"


def round_files(directory: Path) -> dict[int, Path]:
    """Return the files of a directory by round, the first round first; others are left out."""
    found = {
        int(named[1]): path
        for path in directory.glob(ANY_ROUND)
        if (named := ROUND_FILE.fullmatch(path.name))
    }
    return dict(sorted(found.items()))


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
