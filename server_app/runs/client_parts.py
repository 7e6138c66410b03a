"""The part of the model that each client of a simulation keeps: ``clients/NUMBER.safetensors``.

Together with ``model.safetensors`` it is the client's model.
"""

from pathlib import Path

from safetensors import SafetensorError, safe_open

from server_app.aggregation.weights import Weights, as_bytes
from server_app.runs.checkpoint import DIGEST, digest
from task.errors import ConfigError
from task.files import write_whole

DIRECTORY = "clients"
SUFFIX = ".safetensors"


def save_client_part(directory: Path, client: int, part: Weights, model: str) -> None:
    """Write a client's part; equal parts give equal bytes.

    Args:
        directory: the run's.
        client: the client's number.
        part: the entries of the ``state_dict`` that are its own.
        model: the hash of the ``model.safetensors`` that they belong to.

    Raises:
        OSError: it cannot be written.
    """
    place = directory / DIRECTORY
    place.mkdir(exist_ok=True)
    content = as_bytes(part, {DIGEST: digest(model, part)})
    write_whole(place / f"{client}{SUFFIX}", content)


def saved_clients(directory: Path) -> list[int]:
    """Return the numbers of the clients whose part was saved, ascending."""
    names = (path.stem for path in (directory / DIRECTORY).glob(f"*{SUFFIX}"))
    return sorted(int(name) for name in names if name.isdecimal())


def load_client_part(directory: Path, client: int, model: str) -> Weights:
    """Return the part that `save_client_part` wrote.

    Raises:
        ConfigError: there is none, it is damaged, or it belongs to another shared part.
    """
    path = directory / DIRECTORY / f"{client}{SUFFIX}"
    if not path.exists():
        raise ConfigError("client", client, missing_reason(saved_clients(directory)))
    try:
        with safe_open(path, "np") as file:
            metadata = file.metadata() or {}
            part: Weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise ConfigError("client", client, f"{path} cannot be read: {error}") from None
    if metadata.get(DIGEST) != digest(model, part):
        allowed = f"{path} is not what the run wrote beside its model: its checksum differs"
        raise ConfigError("client", client, allowed)
    return part


def missing_reason(saved: list[int]) -> str:
    """Return why a client has no part, and which ones have."""
    if not saved:
        return (
            "the run has saved no client's part of the model: it was trained at sites, with "
            "secure=masked, or by an older version"
        )
    first = ", ".join(map(str, saved[:10]))
    more = f" and {len(saved) - 10} more" if len(saved) > 10 else ""
    return f"has no part of the model: it has not trained; choose from {first}{more}"
