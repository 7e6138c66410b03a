"""The models of single rounds that a run has kept."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from server_app.aggregation.weights import Readable, read_array
from server_app.rounds.kept_models import AGGREGATED, CLIENT, RECEIVED
from server_app.runs.records.tables import MODELS
from task.errors import ConfigError, system_reason
from task.machine.files import round_files
from task.machine.regular import regular


@dataclass(frozen=True)
class KeptModels:
    """A round's models.

    Attributes:
        received: the global weights that the participants received.
        clients: by client, the weights that it sent, of accepted updates.
        aggregated: the global weights after the round.
    """

    received: Readable
    clients: Mapping[int, Readable]
    aggregated: Readable


class KeptWeights(Mapping[str, NDArray[np.generic]]):
    """One model in a round's file; an array is read when it is accessed."""

    def __init__(self, file: Any, owner: str, names: Sequence[str]) -> None:
        self._file, self._owner, self._names = file, owner, names

    def __getitem__(self, name: str) -> NDArray[np.generic]:
        return read_array(self._file, f"{self._owner}/{name}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def kept_rounds(directory: Path) -> dict[int, Path]:
    """Return the files of stored models, by round."""
    return round_files(directory / MODELS)


def load_models(path: Path) -> KeptModels:
    """Return the models in a file; their arrays stay on disk until they are accessed.

    Raises:
        ConfigError: the file cannot be read.
    """
    try:
        file: Any = safe_open(regular(path), framework="numpy")  # it has no types
    except OSError as error:
        raise ConfigError("run", path, f"cannot be read: {system_reason(error)}") from None
    except SafetensorError as error:
        raise ConfigError("run", path, f"is damaged: {error}") from None
    names: dict[str, list[str]] = {}
    for key in file.keys():  # noqa: SIM118  (the file is no mapping)
        owner, _, name = key.partition("/")
        names.setdefault(owner, []).append(name)
    if not {RECEIVED, AGGREGATED} <= set(names):
        raise ConfigError("run", path, "is damaged: the global models of the round are missing")
    models = {owner: KeptWeights(file, owner, of) for owner, of in names.items()}
    clients = {
        int(owner.removeprefix(CLIENT)): model
        for owner, model in models.items()
        if owner.startswith(CLIENT)
    }
    return KeptModels(models[RECEIVED], dict(sorted(clients.items())), models[AGGREGATED])
