"""What commands need of records before they import what reads them."""

from datetime import UTC, datetime
from pathlib import Path

from task.errors import ConfigError

RUN_JSON = "run.json"
FORMAT = 2  # format 1 had no classes.csv, no code, and only accuracy and loss of the test set
READABLE = (1, FORMAT)
INTERRUPTED = "interrupted"  # the reason of a failed run that a person stopped


def timestamp() -> str:
    """Return the current time in UTC."""
    return datetime.now(tz=UTC).isoformat(timespec="seconds")


def damaged(directory: Path, problem: str) -> ConfigError:
    """Return the error for a run that cannot be resumed because of one of its files.

    Args:
        directory: the run directory.
        problem: the file, the line if that is known, and what is wrong.
    """
    cure = "put a copy of the file there, or delete that directory and start a new run"
    return ConfigError("resume", directory, f"{problem}; {cure}")
