"""The images that a person names: files, directories, globs and lists."""

import codecs
import glob
import logging
import os
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from task.data.sources.families.tree import IMG_EXTENSIONS
from task.errors import ConfigError, system_reason

LIST = ".txt"
SUFFIXES = (*IMG_EXTENSIONS, ".gif", ".jfif")

logger = logging.getLogger("univarfl")


def find_images(words: Sequence[str]) -> list[Path]:
    """Every file that is meant, each once, in the order of the words.

    A directory stands for all files in it that are named as images are, a ``.txt`` file for those
    it names, one a line and from where the command is given; ``**`` in a glob is any directories.

    Raises:
        ConfigError: a word stands for nothing.
    """
    return list(dict.fromkeys(chain.from_iterable(map(meant, words))))


def meant(word: str) -> list[Path]:
    """The files that one word stands for.

    Raises:
        ConfigError: there are none.
    """
    path = Path(word)
    try:
        if path.is_dir():
            found = list(within(path))
        elif path.is_file() and path.suffix.lower() == LIST:
            found = listed(path)
        elif path.exists():
            found = [path]
        else:
            matches = map(Path, sorted(glob.glob(word, recursive=True)))  # noqa: PTH207  (absolute)
            found = [match for match in matches if match.is_file()]
    except OSError as error:
        raise ConfigError("images", error.filename or word, system_reason(error)) from None
    if not found:
        raise ConfigError("images", word, f"holds or matches no images ({', '.join(SUFFIXES)})")
    return found


def within(root: Path) -> Iterator[Path]:
    """A directory's images, sorted by name; it is said which directories cannot be read.

    Links to directories are not followed: they may lead round in a circle. A link to a file that is
    not there counts as an image, so that it is named as one that cannot be read.
    """
    others = 0
    for directory, below, names in os.walk(root, onerror=unread):
        below.sort()
        for name in sorted(names):
            if name.lower().endswith(SUFFIXES):
                yield Path(directory, name)
            else:
                others += not name.startswith(".")
    if others:
        logger.info("%s: %d files not named as images were not looked at", root, others)


def unread(error: OSError) -> None:
    """Say that a directory is left out."""
    logger.warning("left out: %s: %s", error.filename, system_reason(error))


def listed(path: Path) -> list[Path]:
    """The paths that a list has, a line each, in whatever bytes the system knows them by."""
    content = path.read_bytes().removeprefix(codecs.BOM_UTF8)
    lines = (os.fsdecode(line).strip() for line in content.split(b"\n"))
    return [Path(line) for line in lines if line]
