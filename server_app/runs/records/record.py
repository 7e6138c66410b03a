"""A run's ``run.json``: written atomically, read, reopened and closed."""

import contextlib
import hashlib
import json
from collections.abc import Container, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from server_app.runs.lock import held
from task.machine.files import write_whole
from task.machine.regular import regular

RUN_JSON = "run.json"
FORMAT = 2  # format 1 had no classes.csv, no code, and only accuracy and loss of the test set
HASH = "sha256"  # the entry with a hash of all others
INTERRUPTED = "interrupted"  # the reason of a failed run that a person stopped


def write_record(directory: Path, summary: Mapping[str, Any]) -> None:
    """Replace ``run.json`` atomically.

    Raises:
        OSError: it cannot be written; nothing has changed.
    """
    whole = {**summary, HASH: hash_of_entries(summary)}
    write_whole(directory / RUN_JSON, f"{json.dumps(whole, indent=2)}\n".encode())


def hash_of_entries(summary: Mapping[str, Any]) -> str:
    """Return a hash of the entries of a ``run.json`` but `HASH`."""
    text = json.dumps({name: value for name, value in summary.items() if name != HASH})
    return hashlib.sha256(text.encode()).hexdigest()


def read_record(directory: Path) -> dict[str, Any]:
    """Return ``run.json`` unchecked; `univarfl.records.reader.read_run` checks it.

    Raises:
        OSError, ValueError: it is missing, or not a JSON object.
    """
    record = json.loads(regular(directory / RUN_JSON).read_text(encoding="utf-8"))
    if not isinstance(record, dict):
        raise ValueError("it is not a JSON object")
    return record


def reopen_record(directory: Path) -> None:
    """Mark a run as running before the process that resumes it starts.

    Raises:
        ConfigError: another process runs it; nothing was written.
    """
    with held(directory):
        write_record(directory, read_record(directory) | {"status": "running", "reason": ""})


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
    with contextlib.suppress(OSError, ValueError, KeyError), held(directory):
        record = read_record(directory)
        if record["status"] in statuses:
            write_record(directory, record | changes | {"status": "failed", "ended": timestamp()})


def timestamp() -> str:
    """Return the current time in UTC."""
    return datetime.now(tz=UTC).isoformat(timespec="seconds")
