"""Where a run's record lies, and who may write it."""

import os
import secrets
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, Timeout

from server_app.checkpoint import load_checkpoint
from server_app.experiment import Experiment
from server_app.identity import code_hash, identity_of
from server_app.run_record import FORMAT, read_record
from task.errors import ConfigError, system_reason
from task.files import from_home

LOCK = ".lock"


def runs_directory(experiment: Experiment) -> Path:
    """Where run directories are made, absolute."""
    place = experiment.output_dir or os.environ.get("UNIVARFL_RUNS") or "runs"
    return from_home(place).absolute()


def plan_run_directory(experiment: Experiment) -> Path:
    """The directory that a run's record will have, in a place that can be written.

    It is not there yet, unless the run is resumed.

    Raises:
        ConfigError: the place cannot be written, a run of this name is there already, or it cannot
            be resumed.
    """
    parent = runs_directory(experiment)
    directory = parent / (experiment.run_id or new_run_id(experiment))
    if experiment.resume:
        check_resumable(directory, experiment)
    elif directory.exists():
        raise ConfigError("run_id", directory.name, f"{parent} holds that run already")
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


def check_resumable(directory: Path, experiment: Experiment) -> None:
    """Refuse to go on with a run that is done, or that would become another one.

    Raises:
        ConfigError: it is completed or goes on elsewhere, its settings or code were others, or its
            checkpoint cannot be read.
    """
    hold(directory).release()
    load_checkpoint(directory)
    record = read_record(directory)
    if record["status"] == "completed":
        raise ConfigError("resume", directory, "that run is completed")
    if record["format"] != FORMAT or record.get("code") != code_hash():
        allowed = "that run was made by another version of the code; go on with that version"
        raise ConfigError("resume", directory, allowed)
    config = experiment.model_dump()
    if identity_of(record["config"], code_hash()) != identity_of(config, code_hash()):
        allowed = "only federation, watch and engine may be set anew when a run goes on"
        raise ConfigError("resume", directory, allowed)


def hold(directory: Path) -> FileLock:
    """Keep others from the run; the system lets go of it when this process ends, however it does.

    Raises:
        ConfigError: another process is at work on it.
    """
    lock = FileLock(directory / LOCK)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        allowed = "another process is at work on that run"
        raise ConfigError("resume", directory, allowed) from None
    return lock


def is_held(directory: Path) -> bool:
    """Whether a process is at work on a run."""
    if not directory.exists():
        return False
    try:
        hold(directory).release()
    except ConfigError:
        return True
    return False


def new_run_id(experiment: Experiment) -> str:
    """A name that tells what was run, and that two runs of the same second do not share."""
    now = datetime.now(tz=UTC).strftime("%Y%m%d-%H%M%S")
    what = f"{experiment.data['name']}-{experiment.method['name']}-s{experiment.seed}"
    return f"{now}-{what}-{secrets.token_hex(4)}"
