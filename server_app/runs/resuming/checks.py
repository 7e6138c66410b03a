"""The checks before a run is resumed: its record, its settings, and each of its files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from server_app.config.differences import deciding
from server_app.config.experiment import Experiment
from server_app.config.override_text import as_typed
from server_app.runs.identity import code_of, identity_of, recorded_code
from server_app.runs.lock import hold
from server_app.runs.records.entries import check_entries
from server_app.runs.records.image_versions import recorded_versions, versions_of
from server_app.runs.records.record import FORMAT, HASH, RUN_JSON, damaged, unchanged_record
from server_app.runs.records.tables import RecordError
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
    record = unchanged_record(directory)
    if record.get("status") == "completed":
        allowed = f"that run is completed; a new run with model.weights={directory} goes on from it"
        raise ConfigError("resume", directory, allowed)
    config = experiment.model_dump()
    code = code_of(config)
    if record.get("format") != FORMAT or record.get("code") != code.shared:
        raise other_version(directory)
    if HASH not in record:
        raise damaged(directory, f"{RUN_JSON} has no entry {HASH}")
    try:
        check_entries(record)
    except RecordError as error:
        raise damaged(directory, str(error)) from None
    check_settings(directory, record["config"], config)
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


def other_version(directory: Path) -> ConfigError:
    """Return the error for a run that other code has made."""
    allowed = "that run was made by another version of the code; resume it with that version"
    return ConfigError("resume", directory, allowed)
