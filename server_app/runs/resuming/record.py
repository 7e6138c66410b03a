"""The record of a run that is to go on: read, and compared with its hash."""

import json
from pathlib import Path
from typing import Any

from server_app.runs.records.record import HASH, RUN_JSON, hash_of_entries, read_record
from task.errors import ConfigError, system_reason


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
