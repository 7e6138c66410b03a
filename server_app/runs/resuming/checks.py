"""The checks before a run is resumed: its record, its settings, and each of its files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from server_app.config.differences import deciding
from server_app.config.experiment import Experiment
from server_app.config.override_text import as_typed
from server_app.runs.identity import code_of, identity_of, recorded_code
from server_app.runs.lock import hold
from server_app.runs.records.image_versions import recorded_versions, versions_of
from server_app.runs.records.record import RUN_JSON, damaged
from server_app.runs.resuming.record import other_version, record_to_resume
from task.errors import ConfigError

HASHED_FILES = (("model", "weights"), ("clock", "trace"))


def check_resumable(directory: Path, experiment: Experiment) -> None:
    """Refuse to resume a run that is completed, or that would continue as another run.

    Raises:
        ConfigError: it is completed or another process runs it; its settings, code or data have
            changed; or one of its files is damaged.
    """
    # Imported here because it imports PyTorch, and most commands that need this file do not.
    from server_app.runs.resuming.files import usable_checkpoint  # noqa: PLC0415

    hold(directory).release()
    check_record(directory, experiment)
    usable_checkpoint(directory, experiment)


def check_record(directory: Path, experiment: Experiment) -> None:
    """Refuse a record that is completed or damaged, or that is not of this experiment.

    Raises:
        ConfigError: the run is completed, its record is damaged, or its settings, code or images
            differ from those of the experiment.
    """
    record = record_to_resume(directory)
    if record.completed:
        allowed = f"that run is completed; a new run with model.weights={directory} goes on from it"
        raise ConfigError("resume", directory, allowed)
    config = experiment.model_dump()
    code = code_of(config)
    if not record.current or record.code != code.shared:
        raise other_version(directory)
    if record.sha256 is None:
        raise damaged(directory, f"{RUN_JSON} has no entry sha256")
    check_settings(directory, record.config, config)
    if recorded_code(record) != code:
        raise other_version(directory)
    if changed := recorded_versions(record).differ(versions_of(experiment)):
        allowed = f"{changed} have changed since that run began; start a new run"
        raise ConfigError("resume", directory, allowed)


def check_settings(directory: Path, first: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse settings that cannot change when a run is resumed.

    Args:
        directory: the run directory.
        first: the recorded configuration.
        now: that of the run that would go on.

    Raises:
        ConfigError: one has changed.
    """
    for group, key in HASHED_FILES:
        if first[group].get(f"{key}_sha256") != now[group].get(f"{key}_sha256"):
            changed = f"the file of {group}.{key} has changed since that run began"
            raise ConfigError("resume", directory, f"{changed}; put the first one back")
    if identity_of(first, None) != identity_of(now, None):
        before, after = deciding(first), deciding(now)
        other = [key for key in {**before, **after} if before.get(key) != after.get(key)]
        allowed = (
            "only federation, watch and engine can be changed when a run is resumed, and "
            f"{', '.join(other)} differs; leave it out"
        )
        raise ConfigError("resume", directory, allowed)
    every = now["watch"]["models_every"]
    if first["watch"]["models_every"] != every:
        allowed = "selects the rounds whose models a run keeps, so it cannot change; leave it out"
        raise ConfigError("watch.models_every", as_typed(every), allowed)
