"""The models of single rounds, kept for a look at them afterwards: one file a round."""

from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError
from safetensors.numpy import load

from server_app.weights import Weights, as_bytes
from task.errors import ConfigError, system_reason
from task.files import write_whole

DIRECTORY = "models"
RECEIVED, AGGREGATED, CLIENT = "received", "aggregated", "client-"


@dataclass(frozen=True)
class RoundModels:
    """A round's models.

    Attributes:
        received: the global weights that the participants began with.
        clients: by client, what it had trained when its update was accepted.
        aggregated: the global weights after the round.
    """

    received: Weights
    clients: dict[int, Weights]
    aggregated: Weights


def save_models(directory: Path, server_round: int, models: RoundModels) -> None:
    """Keep a round's models in its run's directory.

    Raises:
        OSError: they cannot be written.
    """
    owners = {RECEIVED: models.received, AGGREGATED: models.aggregated}
    owners |= {f"{CLIENT}{client}": weights for client, weights in models.clients.items()}
    arrays = {
        f"{owner}/{name}": value
        for owner, weights in owners.items()
        for name, value in weights.items()
    }
    place = directory / DIRECTORY
    place.mkdir(exist_ok=True)
    write_whole(place / f"round-{server_round:06}.safetensors", as_bytes(arrays))


def kept_rounds(directory: Path) -> dict[int, Path]:
    """The files of the rounds whose models a run kept, by round."""
    files = sorted((directory / DIRECTORY).glob("round-*.safetensors"))
    return {int(path.stem.removeprefix("round-")): path for path in files}


def load_models(path: Path) -> RoundModels:
    """A round's models from their file.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        arrays = load(path.read_bytes())
    except OSError as error:
        raise ConfigError("run", path, f"cannot be read: {system_reason(error)}") from None
    except SafetensorError as error:
        raise ConfigError("run", path, f"is damaged: {error}") from None
    owners: dict[str, Weights] = {}
    for key, value in arrays.items():
        owner, _, name = key.partition("/")
        owners.setdefault(owner, {})[name] = value
    clients = {
        int(owner.removeprefix(CLIENT)): weights
        for owner, weights in owners.items()
        if owner.startswith(CLIENT)
    }
    return RoundModels(owners[RECEIVED], dict(sorted(clients.items())), owners[AGGREGATED])
