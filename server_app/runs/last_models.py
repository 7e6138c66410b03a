"""The clients' models of the last round, kept until the stage after training is completed."""

from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError

from server_app.aggregation.weights import Readable, Weights
from server_app.runs.checkpoint import DIRECTORY, read_hashed, write_hashed
from task.errors import ConfigError

FILE = "last-models.safetensors"  # beside the checkpoints, and deleted with them


def save_last_models(directory: Path, models: Mapping[int, Readable]) -> None:
    """Write the models to the run directory, by client.

    Raises:
        OSError: they cannot be written.
    """
    arrays = {
        f"{client}/{name}": value
        for client, weights in models.items()
        for name, value in weights.items()
    }
    place = directory / DIRECTORY
    place.mkdir(exist_ok=True)
    write_hashed(place / FILE, "", arrays)


def load_last_models(directory: Path) -> dict[int, Weights]:
    """Return the models that `save_last_models` wrote.

    Raises:
        ConfigError: the file is missing or damaged.
    """
    path = directory / DIRECTORY / FILE
    try:
        arrays, _ = read_hashed(path)
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        allowed = f"{path.name} is missing or damaged ({error}); start a new run"
        raise ConfigError("resume", directory, allowed) from None
    models: dict[int, Weights] = {}
    for key, value in arrays.items():
        client, _, name = key.partition("/")
        models.setdefault(int(client), {})[name] = value
    return dict(sorted(models.items()))
