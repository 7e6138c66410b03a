"""One JSON file for each unit that was run."""

import json
from pathlib import Path
from typing import Any

from task.machine.files import write_whole

Record = dict[str, Any]


def write(folder: Path, record: Record) -> None:
    """Write a unit's record in one move."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(record, indent=2)
    write_whole(folder / f"{record['name']}.json", f"{text}\n".encode())


def read(folder: Path) -> dict[str, Record]:
    """Return the records in a folder by the names of their units, oldest first."""
    found = [json.loads(path.read_text()) for path in folder.glob("*.json")]
    return {record["name"]: record for record in sorted(found, key=lambda one: one["ended"])}


def results(records: dict[str, Record], part: str) -> dict[str, Any]:
    """Return the results of a part's units that succeeded."""
    return {
        name: record["result"]
        for name, record in records.items()
        if record["part"] == part and "result" in record
    }
