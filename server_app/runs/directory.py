"""Run directories: where they are, and which can be resumed."""

import secrets
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from server_app.config.differences import deciding
from server_app.config.experiment import Experiment
from server_app.config.override_text import as_typed
from server_app.runs.identity import code_of, identity_of, recorded_code
from server_app.runs.lock import hold
from server_app.runs.lookup import runs_parent
from server_app.runs.records.image_versions import recorded_versions, versions_of
from server_app.runs.records.record import FORMAT, read_record
from task.errors import ConfigError, system_reason

HASHED_FILES = (("model", "weights"), ("clock", "trace"))


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
        check_resumable(directory, experiment)
    elif directory.exists():
        raise ConfigError(
            "run_id", directory.name, f"{parent} has a run of this name; choose another"
        )
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
    """Refuse to resume a run that is completed, or that would continue as another run.

    Raises:
        ConfigError: it is completed or another process runs it; its settings, code or data have
            changed; or its checkpoint cannot be read.
    """
    # Imported here because it imports PyTorch, and most commands that need this file do not.
    from server_app.runs.checkpoint import load_checkpoint  # noqa: PLC0415

    hold(directory).release()
    load_checkpoint(directory)
    record = read_record(directory)
    if record.get("status") == "completed":
        allowed = f"that run is completed; a new run with model.weights={directory} goes on from it"
        raise ConfigError("resume", directory, allowed)
    config = experiment.model_dump()
    code = code_of(config)
    known = record.get("format") == FORMAT and record.get("code") == code.shared
    for group, key in HASHED_FILES:
        hash_key = f"{key}_sha256"
        if known and record["config"][group].get(hash_key) != config[group].get(hash_key):
            changed = f"the file of {group}.{key} has changed since that run began"
            allowed = f"{changed}; put the first one back"
            raise ConfigError("resume", directory, allowed)
    if known and identity_of(record["config"], None) != identity_of(config, None):
        first, now = deciding(record["config"]), deciding(config)
        other = [key for key in {**first, **now} if first.get(key) != now.get(key)]
        allowed = (
            "only federation, watch and engine can be changed when a run is resumed, and "
            f"{', '.join(other)} differs; leave it out"
        )
        raise ConfigError("resume", directory, allowed)
    every = config["watch"]["models_every"]
    if known and record["config"]["watch"]["models_every"] != every:
        allowed = "selects the rounds whose models a run keeps, so it cannot change; leave it out"
        raise ConfigError("watch.models_every", as_typed(every), allowed)
    if not known or recorded_code(record) != code:
        allowed = "that run was made by another version of the code; resume it with that version"
        raise ConfigError("resume", directory, allowed)
    if changed := recorded_versions(record).differ(versions_of(experiment)):
        allowed = f"{changed} have changed since that run began; start a new run"
        raise ConfigError("resume", directory, allowed)


def new_run_id(experiment: Experiment) -> str:
    """Return a name from time, data set, method and seed, unique also within one second."""
    now = datetime.now(tz=UTC).strftime("%Y%m%d-%H%M%S")
    what = f"{experiment.data['name']}-{experiment.method['name']}-s{experiment.seed}"
    return f"{now}-{what}-{secrets.token_hex(4)}"
