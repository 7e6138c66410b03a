"""The images that a person names: files, directories, globs and lists."""

import glob
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from task.data.sources.families.tree import walk
from task.errors import ConfigError, system_reason

DEEPEST = 64  # directories in each other; a link may lead round in a circle
LIST = ".txt"


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
            found = [path.joinpath(*file.parts) for file in walk(path, DEEPEST).files]
        elif path.is_file() and path.suffix.lower() == LIST:
            found = [Path(line.strip()) for line in path.read_text().splitlines() if line.strip()]
        elif path.exists():
            found = [path]
        else:
            matches = map(Path, sorted(glob.glob(word, recursive=True)))  # noqa: PTH207  (absolute)
            found = [match for match in matches if match.is_file()]
    except UnicodeDecodeError:
        raise ConfigError("images", word, "is no list: its lines are no text") from None
    except OSError as error:
        raise ConfigError("images", error.filename or word, system_reason(error)) from None
    if not found:
        raise ConfigError("images", word, "holds or matches no images")
    return found
