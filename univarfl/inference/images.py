"""The images named on the command line: files, directories, globs and lists."""

import codecs
import glob
import logging
import os
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from task.data.sources.families.tree import (
    IMG_EXTENSIONS,
    OF_ARCHIVES,
    has_image_suffix,
    images_in,
)
from task.errors import ConfigError, system_reason

LIST = ".txt"

logger = logging.getLogger("univarfl")


def find_images(words: Sequence[str]) -> list[Path]:
    """Return every named image file once, in the order of the words.

    A word is a file, a directory, a glob or a list. A directory stands for all files below it with
    the suffix of an image. In a glob, ``**`` matches any directories. A list is a ``.txt`` file
    with one path per line, relative to the current directory.

    Raises:
        ConfigError: a word matches no image.
    """
    return list(dict.fromkeys(chain.from_iterable(map(expand_word, words))))


def expand_word(word: str) -> list[Path]:
    """Return the files that one word stands for.

    Raises:
        ConfigError: there are none.
    """
    path = Path(word)
    try:
        if path.is_dir():
            found = list(images_below(path))
        elif path.is_file() and path.suffix.lower() == LIST:
            found = read_list(path)
        elif path.exists():
            found = [path]
        else:
            found = [match for match in sorted(matches(word)) if match.is_file()]
    except OSError as error:
        raise ConfigError("images", error.filename or word, system_reason(error)) from None
    if not found:
        missing = not (path.exists() or glob.has_magic(word))
        allowed = f"contains or matches no images ({', '.join(IMG_EXTENSIONS)})"
        raise ConfigError("images", word, "there is no such file" if missing else allowed)
    return found


def images_below(root: Path) -> Iterator[Path]:
    """Yield the images below a directory, sorted by name; log the directories that are skipped.

    What a data set does not read is skipped, too. A broken link with the suffix of an image is
    yielded, so that it is reported as an image that cannot be read.
    """
    others = 0
    for directory, _, names in images_in(root, log_skipped_directory):
        for name in names:
            if has_image_suffix(name):
                yield directory / name
            else:
                others += 1
    if others:
        logger.info("%s: %d files without the suffix of an image were skipped", root, others)


def matches(word: str) -> set[Path]:
    """Return the paths that match a glob; `glob` itself follows links in a circle for ``**``."""
    parts = Path(word).parts
    if "**" not in parts:
        found = map(Path, glob.glob(word))  # noqa: PTH207  (the word may be absolute)
        return {path for path in found if OF_ARCHIVES not in {*path.parts} - {*parts}}
    at = parts.index("**")
    rest = parts[at + 1 :] or ("*",)
    bases = matches(str(Path(*parts[:at]))) if at else {Path()}
    return {
        match
        for base in filter(Path.is_dir, bases)
        for place, _, _ in images_in(base, log_skipped_directory)
        for match in matches(str(Path(glob.escape(str(place)), *rest)))
    }


def log_skipped_directory(error: OSError) -> None:
    """Log that a directory cannot be read."""
    logger.warning("left out: %s: %s", error.filename, system_reason(error))


def read_list(path: Path) -> list[Path]:
    """Return the paths in a list file, one per line, decoded as the file system does."""
    content = path.read_bytes().removeprefix(codecs.BOM_UTF8)
    lines = (os.fsdecode(line).strip() for line in content.split(b"\n"))
    return [Path(line) for line in lines if line]
