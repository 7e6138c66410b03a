"""The files of single rounds in a directory: ``round-NUMBER.safetensors``."""

import re
from pathlib import Path

ANY_ROUND = "round-*.safetensors"
NAMED = re.compile(r"round-(\d{1,9})\.safetensors", re.ASCII)


def round_files(directory: Path) -> dict[int, Path]:
    """Return the files of a directory by round, the first round first; others are left out."""
    found = {
        int(named[1]): path
        for path in directory.glob(ANY_ROUND)
        if (named := NAMED.fullmatch(path.name))
    }
    return dict(sorted(found.items()))
