"""The choices that ``conf/`` offers, read from file names alone, so that ``--help`` is quick."""

from pathlib import Path

CONF = Path(__file__).resolve().parent.parent.parent / "conf"
SWEEPS = "sweep"  # lists of sweeps, not a configuration group


def choices() -> dict[str, list[str]]:
    """Return the options of each configuration group, by its name."""
    groups = sorted(path.name for path in CONF.iterdir() if path.is_dir())
    return {group: names_in(group) for group in groups if group != SWEEPS}


def names_in(folder: str) -> list[str]:
    """Return the names of the YAML files in one folder of ``conf/``."""
    return sorted(file.stem for file in (CONF / folder).glob("*.yaml"))
