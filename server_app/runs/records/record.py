"""A run's ``run.json``: written atomically, read, and compared with its hash."""

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from task.errors import ConfigError, system_reason
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


def unchanged_record(directory: Path) -> dict[str, Any]:
    """Return ``run.json`` if it is as it was written; older versions wrote no hash into it.

    Raises:
        ConfigError: it cannot be read, or is damaged.
    """
    try:
        record = read_record(directory)
        if record.get(HASH, hash_of_entries(record)) != hash_of_entries(record):
            raise ValueError("its hash is not that of its entries")
    except json.JSONDecodeError as error:
        place = f"{RUN_JSON}, line {error.lineno}"
        raise damaged(directory, f"{place}: it is not JSON ({error.msg})") from None
    except OSError as error:
        raise damaged(directory, f"{RUN_JSON}: {system_reason(error)}") from None
    except (ValueError, RecursionError) as error:
        raise damaged(directory, f"{RUN_JSON} is damaged: {error}") from None
    return record


def damaged(directory: Path, problem: str) -> ConfigError:
    """Return the error for a run that cannot be resumed because of one of its files.

    Args:
        directory: the run directory.
        problem: the file, the line if that is known, and what is wrong.
    """
    cure = "put a copy of the file there, or delete that directory and start a new run"
    return ConfigError("resume", directory, f"{problem}; {cure}")
