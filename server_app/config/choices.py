"""The choices that ``conf/`` offers, read from file names alone, so that ``--help`` is quick.

Those of other installed packages come with them; see `task.extensions`.
"""

import functools
from pathlib import Path

from task.extensions import extensions

CONF = Path(__file__).resolve().parent.parent.parent / "conf"
SWEEPS = "sweep"  # lists of sweeps, not a configuration group


def choices() -> dict[str, list[str]]:
    """Return the options of each configuration group, by its name."""
    groups = sorted(path.name for path in CONF.iterdir() if path.is_dir())
    return {group: names_in(group) for group in groups if group != SWEEPS}


def names_in(folder: str) -> list[str]:
    """Return the names of the YAML files in one folder of ``conf/``."""
    return sorted(files_in(folder))


def files_in(folder: str) -> dict[str, Path]:
    """Return the YAML files in one folder of ``conf/`` by name."""
    others = {name: extension.settings for name, extension in extensions(folder).items()}
    directory = CONF / folder
    changed = directory.stat().st_mtime_ns if directory.is_dir() else 0
    return others | yaml_files(directory, changed)


@functools.cache
def yaml_files(directory: Path, changed: int) -> dict[str, Path]:
    """Return the YAML files in a directory by name; it is listed once until it changes.

    Args:
        directory: holds the files.
        changed: when an entry was last added or removed; part of the cache's key.
    """
    del changed
    return {file.stem: file for file in directory.glob("*.yaml")}


def search_path() -> list[Path]:
    """Return the ``conf`` directories of other packages whose components can be chosen."""
    found = [each.conf for group in choices() for each in extensions(group).values()]
    return list(dict.fromkeys(found))
