"""``model.weights``: the file of weights that a run starts from, and its hash.

Only the server reads the file. If the setting is used, the experiment's group ``model`` has the
file's path and hash. The part of the experiment that is sent to clients has neither.
"""

import functools
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from task.errors import ConfigError, system_reason
from task.files import from_home

WEIGHTS, WEIGHTS_HASH = "weights", "weights_sha256"
KEY = f"model.{WEIGHTS}"
MODEL = "model.safetensors"  # the name in a run directory
EXPECTED = f"name a safetensors file, such as runs/RUN/{MODEL}, or a run directory"


class GivenWeights(NamedTuple):
    """A file of weights, and the SHA-256 that it had when the experiment was composed."""

    path: Path
    sha256: str


def with_hash(model: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a network with the absolute path of its weights and their hash.

    Without given weights they have neither key, so that they are those of runs made before.

    Raises:
        ConfigError: the file cannot be read.
    """
    settings = {key: value for key, value in model.items() if key != WEIGHTS}
    typed = model.get(WEIGHTS)
    if typed is None:
        return settings
    path = from_home(str(typed)).absolute()
    path = path / MODEL if path.is_dir() else path
    return {**settings, WEIGHTS: str(path), WEIGHTS_HASH: hash_of(path)}


def without_weights(model: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of the network itself."""
    return {key: value for key, value in model.items() if key not in (WEIGHTS, WEIGHTS_HASH)}


def given_weights(model: Mapping[str, Any]) -> GivenWeights | None:
    """Return the weights that the settings name; None if the run starts from its seed's."""
    return GivenWeights(Path(model[WEIGHTS]), model[WEIGHTS_HASH]) if WEIGHTS in model else None


def hash_of(path: Path) -> str:
    """Return the SHA-256 of a file of weights.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        status = path.stat()
        return _hash(path, status.st_mtime_ns, status.st_size, status.st_ino)
    except OSError as error:
        reason = f"cannot be read: {system_reason(error)}; {EXPECTED}"
        raise ConfigError(KEY, path, reason) from None


@functools.lru_cache(maxsize=8)
def _hash(path: Path, *state: int) -> str:
    """Return the SHA-256 of a file in a state; a sweep composes many runs with one file."""
    del state
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
