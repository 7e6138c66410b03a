"""What a completed run left behind to be used again: its settings and its model."""

import hashlib
from pathlib import Path

from pydantic import ValidationError
from safetensors.numpy import load

from server_app.report.records import RecordError, Run, ending, read_run
from server_app.weights import Weights
from task.config import Device, LocalConfig
from task.errors import ConfigError, system_reason
from task.registry import first_error

MODEL = "model.safetensors"


def completed_run(directory: Path) -> Run:
    """A run that has a model.

    Raises:
        ConfigError: there is none, its record is damaged, or it was not completed.
    """
    if not (directory / "run.json").exists():
        raise ConfigError("run", directory, "is no run; name a directory that holds a run.json")
    try:
        run = read_run(directory)
    except RecordError as error:
        raise ConfigError("run", directory, str(error)) from None
    if run.record["status"] != "completed":
        raise ConfigError("run", directory, f"has no final model: it {ending(run)}")
    return run


def settings_of(run: Run, device: Device = "auto") -> LocalConfig:
    """What a run's clients were told, for a device of this machine.

    Raises:
        ConfigError: another version of the code made the run.
    """
    known = LocalConfig.model_fields
    settings = {key: value for key, value in run.config.items() if key in known}
    try:
        return LocalConfig.model_validate({**settings, "device": device})
    except ValidationError as error:
        said = f"its settings are not of this version: {first_error(error)}"
        raise ConfigError("run", run.directory, said) from None


def other_layers(run: Run) -> ConfigError:
    """What to say of a run whose weights do not fit the network that this version builds."""
    said = "its model has other layers than this version's"
    return ConfigError("run", run.directory, said)


def weights_of(run: Run) -> Weights:
    """The final global model.

    Raises:
        ConfigError: its file is missing, or not the one that the run wrote.
    """
    path = run.directory / MODEL
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError("run", path, f"cannot be read: {system_reason(error)}") from None
    if hashlib.sha256(content).hexdigest() != run.record["model_sha256"]:
        raise ConfigError("run", path, "is not the model that the run wrote: its hash is another")
    return load(content)
