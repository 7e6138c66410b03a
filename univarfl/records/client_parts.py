"""The part of the model that a client keeps, read from a run directory."""

from pathlib import Path

from safetensors import SafetensorError, safe_open

from server_app.aggregation.weights import Weights, from_tensors
from server_app.runs.client_parts import DIRECTORY
from task.errors import ConfigError
from task.machine.files import DIGEST
from task.machine.regular import regular
from task.training.personal.part_file import SUFFIX, part_digest


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
