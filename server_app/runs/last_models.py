"""The clients' models of the last round, kept until the stage after training is completed."""

from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError

from server_app.aggregation.weights import Readable, Weights, as_bytes, from_file
from server_app.runs.checkpoint import DIRECTORY
from task.digest import DIGEST, digest
from task.errors import ConfigError
from task.machine.files import write_whole

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
    write_whole(place / FILE, as_bytes(arrays, {DIGEST: digest("", arrays)}))


def load_last_models(directory: Path) -> dict[int, Weights]:
    """Return the models that `save_last_models` wrote.

    Raises:
        ConfigError: the file is missing or damaged.
    """
    path = directory / DIRECTORY / FILE
    try:
        arrays, metadata = from_file(path)
        if metadata[DIGEST] != digest("", arrays):
            raise ValueError("its checksum is wrong")
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        allowed = f"{path.name} is missing or damaged ({error}); start a new run"
        raise ConfigError("resume", directory, allowed) from None
    models: dict[int, Weights] = {}
    for key, value in arrays.items():
        client, _, name = key.partition("/")
        models.setdefault(int(client), {})[name] = value
    return dict(sorted(models.items()))
