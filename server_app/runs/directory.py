"""Run directories: where they are, and which command may use them."""

import secrets
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from server_app.config.experiment import Experiment
from server_app.runs.lock import COMMAND_LOCK, LOCK
from server_app.runs.lookup import runs_parent
from server_app.runs.records.record import RUN_JSON
from server_app.runs.records.tables import CLASSES, CLIENTS, EVENTS, ROUNDS
from task.errors import ConfigError, system_reason

RUN_LOG, FLOWER_LOG = "run.log", "flower.log"
BEFORE_RECORD = (RUN_LOG, FLOWER_LOG, ROUNDS, CLASSES, CLIENTS, EVENTS)


def runs_directory(experiment: Experiment) -> Path:
    """Return the absolute directory in which run directories are created."""
    return runs_parent(experiment.output_dir)


def plan_run_directory(experiment: Experiment) -> Path:
    """Return the directory of a run; it does not exist yet, unless the run is resumed.

    Raises:
        ConfigError: it cannot be created, a run of this name exists, or the run cannot be resumed.
    """
    parent = runs_directory(experiment)
    directory = parent / (experiment.run_id or new_run_id(experiment))
    if experiment.resume:
        from server_app.runs.resuming.checks import check_resumable  # noqa: PLC0415  (rarely used)

        check_resumable(directory, experiment)
    else:
        require_new(directory)
    try:
        parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=parent):
            pass
    except FileExistsError:
        raise ConfigError("output_dir", parent, "must be a directory, not a file") from None
    except OSError as error:
        reason = f"must be writable: {system_reason(error)}"
        raise ConfigError("output_dir", parent, reason) from None
    return directory


def require_new(directory: Path) -> None:
    """Refuse the name of a run that exists; what a killed command left of one does not count.

    Raises:
        ConfigError: there is a record, or a file that no command makes before the record.
    """
    if (directory / RUN_JSON).exists():
        allowed = f"{directory.parent} has a run of this name; choose another"
    elif not directory.exists() or (directory.is_dir() and all(map(is_left, directory.iterdir()))):
        return
    else:
        allowed = f"{directory} exists and is no run; choose another name, or delete it"
    raise ConfigError("run_id", directory.name, allowed)


def is_left(path: Path) -> bool:
    """Return whether a file may be there before the record of its run."""
    draft = path.name.startswith(f"{RUN_JSON}.") and path.suffix == ".tmp"
    return draft or path.name in (LOCK, COMMAND_LOCK, *BEFORE_RECORD)


def clear(directory: Path) -> None:
    """Delete what a killed command left of a run that has no record.

    Raises:
        ConfigError: there is a record, or a file that no command makes before the record.
    """
    require_new(directory)
    for path in directory.glob("*"):
        if path.name not in (LOCK, COMMAND_LOCK):
            path.unlink(missing_ok=True)


def new_run_id(experiment: Experiment) -> str:
    """Return a name from time, data set, method and seed, unique also within one second."""
    now = datetime.now(tz=UTC).strftime("%Y%m%d-%H%M%S")
    what = f"{experiment.data['name']}-{experiment.method['name']}-s{experiment.seed}"
    return f"{now}-{what}-{secrets.token_hex(4)}"
