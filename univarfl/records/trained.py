"""What a completed run leaves for later use: its settings and its model."""

import hashlib
from pathlib import Path
from typing import get_args

from safetensors import SafetensorError, safe_open
from safetensors.numpy import load

from server_app.aggregation.weights import Weights, from_tensors
from server_app.config.vocabulary import improved
from server_app.runs.client_parts import DIRECTORY
from server_app.runs.records.record import RUN_JSON
from server_app.runs.records.tables import RecordError
from task.config import Device, LocalConfig
from task.errors import ConfigError, system_reason
from task.given_weights import MODEL, without_weights
from task.machine.files import DIGEST
from task.machine.regular import regular
from task.rules import read_settings
from task.training.personal.part_file import SUFFIX, part_digest
from univarfl.records.checkpoints import onward
from univarfl.records.reader import Run, ending, read_run


def completed_run(directory: Path) -> Run:
    """Return a run that has a final model.

    Raises:
        ConfigError: there is no run, its record is damaged, or it is not completed.
    """
    if not (directory / RUN_JSON).exists():
        raise ConfigError("run", directory, "is not a run; name a directory with a run.json")
    try:
        run = read_run(directory)
    except RecordError as error:
        raise ConfigError("run", directory, str(error)) from None
    if not run.record.completed:
        simulated = run.config.get("partition", {}).get("name") != "sites"
        cure = onward(directory) if simulated else ""
        raise ConfigError("run", directory, f"has no final model: it {ending(run)}{cure}")
    return run


def local_config_of(run: Run, device: Device = "auto") -> LocalConfig:
    """Return the settings of a run's local training, for a device of this machine.

    Raises:
        ConfigError: there is no such device, or the run was made by a version of univarfl with
            other settings.
    """
    if device not in (devices := get_args(Device)):
        allowed = f"must be {', '.join(map(repr, devices[:-1]))} or {devices[-1]!r}"
        raise improved(ConfigError("device", device, allowed, "literal_error"), {})
    known = LocalConfig.model_fields
    settings = {key: value for key, value in run.config.items() if key in known}
    settings["model"] = without_weights(settings["model"])
    try:
        return read_settings({**settings, "device": device})
    except ConfigError as error:
        reason = f"its settings are not those of this version: {error}"
        raise ConfigError("run", run.directory, reason) from None


def layers_differ(run: Run) -> ConfigError:
    """Return the error for a run whose weights do not fit the network of this version."""
    reason = "its model has other layers than the model of this version"
    return ConfigError("run", run.directory, reason)


def weights_of_client(run: Run, client: int | None) -> Weights:
    """Return the final model: that of a client, or the global one if `client` is None.

    Raises:
        ConfigError: each client has its own and none is named, or the reverse; or a file is missing
            or damaged.
    """
    if client is None and run.personal:
        clients = saved_clients(run.directory)
        cure = f"; add --client {clients[0]} for the model of client {clients[0]}"
        allowed = (
            f"has no whole model: each client of method={run.config['method']['name']} keeps a "
            f"part of it, and model.safetensors has the shared layers{cure if clients else ''}"
        )
        raise ConfigError("run", run.directory, allowed)
    if client is None:
        return final_weights(run)
    if not run.personal:
        allowed = "leave it out: all clients of this run have one model"
        raise ConfigError("client", client, allowed)
    shared = final_weights(run)
    return {**shared, **load_client_part(run.directory, client, run.record.model_sha256)}


def final_weights(run: Run) -> Weights:
    """Return the final global model; without the part that stays with each client.

    Raises:
        ConfigError: its file is missing, or is not the one that the run wrote.
    """
    path = run.directory / MODEL
    try:
        content = regular(path).read_bytes()
    except OSError as error:
        raise ConfigError("run", path, f"cannot be read: {system_reason(error)}") from None
    if hashlib.sha256(content).hexdigest() != run.record.model_sha256:
        raise ConfigError("run", path, "is not the model that the run wrote: its hash differs")
    return load(content)


def saved_clients(directory: Path) -> list[int]:
    """Return the numbers of the clients whose part was saved, ascending."""
    names = (path.stem for path in (directory / DIRECTORY).glob(f"*{SUFFIX}"))
    return sorted(int(name) for name in names if name.isdecimal())


def load_client_part(directory: Path, client: int, model: str) -> Weights:
    """Return the part that `save_client_part` or the client's site wrote.

    Raises:
        ConfigError: there is none, it is damaged, or it belongs to another shared part.
    """
    path = directory / DIRECTORY / f"{client}{SUFFIX}"
    if not path.exists():
        raise ConfigError("client", client, missing_reason(saved_clients(directory)))
    try:
        with safe_open(regular(path), "pt") as file:
            metadata = file.metadata() or {}
            part = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise ConfigError("client", client, f"{path} cannot be read: {error}") from None
    if metadata.get(DIGEST) != part_digest(part, model):
        allowed = f"{path} is damaged, or belongs to the model of another run: its checksum differs"
        raise ConfigError("client", client, allowed)
    return from_tensors(part)


def missing_reason(saved: list[int]) -> str:
    """Return why a client has no part, and which ones have."""
    if not saved:
        return (
            "the run has saved no client's part of the model. A site keeps its own in its "
            "models-dir: copy that file to clients/ in the run directory. Older versions saved none"
        )
    first = ", ".join(map(str, saved[:10]))
    more = f" and {len(saved) - 10} more" if len(saved) > 10 else ""
    return f"has no part of the model: it has not trained; choose from {first}{more}"
