"""A run's ``run.json``: written in one move, read, opened again and closed."""

import contextlib
import json
from collections.abc import Container, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from task.files import write_whole

FORMAT = 2  # 1 had no classes.csv, no code, and of the test set only accuracy and loss
INTERRUPTED = "interrupted"  # the reason of a failed run that a person ended


def write_record(directory: Path, summary: Mapping[str, Any]) -> None:
    """Write ``run.json`` in one move."""
    write_whole(directory / "run.json", f"{json.dumps(summary, indent=2)}\n".encode())


def read_record(directory: Path) -> dict[str, Any]:
    """A run's ``run.json``."""
    record: dict[str, Any] = json.loads((directory / "run.json").read_text())
    return record


def rounds_done(directory: Path) -> int:
    """How many rounds a run has behind it; the training of each leaves its seconds."""
    with contextlib.suppress(OSError):
        return (directory / "rounds.csv").read_text().count(",train,seconds,")
    return 0


def reopen_record(directory: Path) -> None:
    """Say that a run goes on, before the process that will run it can."""
    write_record(directory, read_record(directory) | {"status": "running", "reason": ""})


def close_record(directory: Path, reason: str) -> None:
    """Say that a run failed which could not say so itself; one that did stays as it is."""
    _close(directory, ("running",), {"reason": reason})


def mark_interrupted(directory: Path) -> None:
    """Say that a run was interrupted, whatever its processes said while they were ended."""
    _close(directory, ("running", "failed"), {"reason": INTERRUPTED, "worker_lost": False})


def _close(directory: Path, open_ones: Container[str], news: dict[str, Any]) -> None:
    """Close a record, if there is one and its status is among these.

    Where the disk is full it stays as it is, and the run can be resumed all the same.
    """
    if not (directory / "run.json").exists():
        return
    record = read_record(directory)
    if record["status"] in open_ones:
        with contextlib.suppress(OSError):
            write_record(directory, record | news | {"status": "failed", "ended": timestamp()})


def timestamp() -> str:
    """Now, in UTC."""
    return datetime.now(tz=UTC).isoformat(timespec="seconds")
