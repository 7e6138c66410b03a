"""The status in a run's record, as the command that runs it reads and sets it."""

import contextlib
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Any

from server_app.runs.lock import LOCK, hold, is_locked
from server_app.runs.records.record import INTERRUPTED, RUN_JSON, timestamp
from server_app.runs.records.run_record import read_record, write_record


def is_held(directory: Path) -> bool:
    """Return whether a process has locked a run."""
    return is_locked(directory / LOCK)


def reopen_record(directory: Path) -> None:
    """Mark a run as running before the process that resumes it starts.

    Raises:
        ConfigError: another process runs it; nothing was written.
    """
    with held(directory):
        write_record(directory, read_record(directory).changed(status="running", reason=""))


def close_record(directory: Path, reason: str) -> None:
    """Mark a run as failed if its record still says "running"."""
    _close(directory, ("running",), {"reason": reason})


def mark_interrupted(directory: Path) -> None:
    """Mark a run as interrupted unless it is completed, also if it failed while it was stopped."""
    _close(directory, ("running", "failed"), {"reason": INTERRUPTED, "restartable": False})


def _close(directory: Path, statuses: Container[str], changes: dict[str, Any]) -> None:
    """Mark a run as failed if its record exists and has one of these statuses.

    A record that another process holds is not written. If the disk is full the record stays as it
    is; the run can still be resumed.
    """
    if not (directory / RUN_JSON).exists():
        return
    with contextlib.suppress(OSError, ValueError), held(directory):
        record = read_record(directory)
        if record.status in statuses:
            closed = record.changed(**changes, status="failed", ended=timestamp())
            write_record(directory, closed)


@contextlib.contextmanager
def held(directory: Path) -> Iterator[None]:
    """Hold a lock of a run in this context.

    Raises:
        ConfigError: another process has locked it.
    """
    lock = hold(directory)
    try:
        yield
    finally:
        lock.release()
