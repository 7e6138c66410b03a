"""A run's ``run.json``: written atomically, and read."""

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

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


def timestamp() -> str:
    """Return the current time in UTC."""
    return datetime.now(tz=UTC).isoformat(timespec="seconds")
