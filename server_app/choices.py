"""What ``conf/`` offers, read from its files alone, so that ``--help`` answers at once."""

from pathlib import Path

CONF = Path(__file__).resolve().parent.parent / "conf"
SWEEPS = "sweep"  # lists of sweeps, and no part of a configuration


def choices() -> dict[str, list[str]]:
    """The options of each configuration group, by its folder's name."""
    groups = sorted(path.name for path in CONF.iterdir() if path.is_dir())
    return {group: names_in(group) for group in groups if group != SWEEPS}


def names_in(folder: str) -> list[str]:
    """The names of the files of one folder of ``conf/``."""
    return sorted(file.stem for file in (CONF / folder).glob("*.yaml"))
