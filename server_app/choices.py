"""What ``conf/`` offers, read from its files alone, so that ``--help`` answers at once."""

from pathlib import Path

CONF = Path(__file__).resolve().parent.parent / "conf"


def choices() -> dict[str, list[str]]:
    """The options of each configuration group, by its folder's name."""
    groups = sorted(path for path in CONF.iterdir() if path.is_dir())
    return {group.name: sorted(file.stem for file in group.glob("*.yaml")) for group in groups}
