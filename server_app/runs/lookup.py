"""Which directory does a person mean by a run's path, id or the word ``latest``?"""

import os
from pathlib import Path

from server_app.runs.records.record import RUN_JSON
from server_app.runs.records.tables import RecordError
from task.errors import ConfigError
from task.machine.files import from_home

LATEST = "latest"


def find_run(name: str | Path, runs: Path | None = None) -> Path:
    """Return the directory of a run.

    Args:
        name: the directory's path, its name in `runs`, or `LATEST` for the run that started last.
        runs: the parent of run directories; None for the default one.

    Raises:
        ConfigError: there is no such run.
    """
    parent = runs or runs_parent()
    if str(name) == LATEST:
        return latest_run(parent)
    for directory in (from_home(name).absolute(), parent / name):
        if (directory / RUN_JSON).is_file():
            return directory
    allowed = f"is neither the directory of a run nor the name of one in {parent}"
    raise ConfigError("run", name, allowed)


def latest_run(runs: Path) -> Path:
    """Return the run that started last.

    Raises:
        ConfigError: the directory holds no runs.
    """
    found = run_directories(runs)
    if not found:
        raise ConfigError("run", LATEST, f"{runs} holds no runs")
    return found[-1]


def run_directories(runs: Path) -> list[Path]:
    """Return the run directories in a directory, the one whose run started first first."""
    found = [path.parent for path in runs.glob(f"*/{RUN_JSON}")]
    return sorted(found, key=lambda path: (start_of(path), path.name))


def start_of(directory: Path) -> str:
    """Return when a run started; empty if its record cannot be read."""
    # Imported here because most commands that look up a directory do not need pydantic.
    from server_app.runs.records.run_record import read_record  # noqa: PLC0415

    try:
        return read_record(directory).started
    except RecordError:
        return ""


def runs_parent(given: str | None = None) -> Path:
    """Return the absolute parent of run directories: `given`, else $UNIVARFL_RUNS, else ./runs."""
    return from_home(given or os.environ.get("UNIVARFL_RUNS") or "runs").absolute()
