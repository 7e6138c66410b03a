"""Hashes of files that settings name: taken as a run is composed, and checked before their use."""

import functools
import hashlib
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from task.errors import ConfigError, system_reason
from task.given_weights import (
    EXPECTED,
    KEY,
    MODEL,
    PRETRAINED,
    WEIGHTS,
    WEIGHTS_HASH,
    GivenWeights,
    cached,
)
from task.machine.files import draft_of, from_home
from task.machine.regular import regular
from task.registry import named

CONVERTED = "server_app.config.converted_weights:converted"  # imports PyTorch
PUBLISHED = "server_app.config.pretrained_weights:pretrained"
LEGACY = b"\x80\x02\x8a\x0a"  # begins a file that torch.save wrote before PyTorch 1.6
ADAPTER = b'.lora_scale"'  # in the header of a file
MOST_HEADER = 100_000_000  # bytes that safetensors allows


def with_hash(model: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a network with the absolute path of its weights and their hash.

    A file of ``torch.save``, or with the adapters of ``tune=lora``, is converted first. Published
    weights are downloaded, and the settings also have their origin. Without weights, the settings
    have none of these keys, so that they are those of runs made before.

    Raises:
        ConfigError: the file cannot be read, or not be downloaded.
    """
    settings = {key: value for key, value in model.items() if key != WEIGHTS}
    typed = model.get(WEIGHTS)
    if typed is None:
        return settings
    kind, _, wanted = str(typed).partition(":")
    if kind == PRETRAINED:
        path, settings[PRETRAINED] = named(PUBLISHED)(settings, wanted)
    else:
        path = from_home(str(typed)).absolute()
        path = path / MODEL if path.is_dir() else path
    sha256 = hash_of(KEY, path, EXPECTED)
    if is_pickled(path) or has_adapters(path):
        path = named(CONVERTED)(path, sha256)
        sha256 = hash_of(KEY, path, EXPECTED)
    return {**settings, WEIGHTS: str(path), WEIGHTS_HASH: sha256}


def is_pickled(path: Path) -> bool:
    """Return whether ``torch.save`` wrote a file, by its first bytes.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        return file.read(len(LEGACY)) == LEGACY or zipfile.is_zipfile(file)


def has_adapters(path: Path) -> bool:
    """Return whether a safetensors file, if it is one, is of a network with adapters."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        return ADAPTER in file.read(min(length, MOST_HEADER))


def keep(given: GivenWeights) -> None:
    """Copy a file of weights to the cache, where the workers of this machine read it.

    Raises:
        ConfigError: the cache cannot be written.
    """
    place = cached(given.sha256)
    try:
        if not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            with draft_of(place) as draft:
                shutil.copyfile(given.path, draft)
    except OSError as error:
        raise ConfigError(KEY, place, f"cannot be written: {system_reason(error)}") from None


def start_hash(given: GivenWeights) -> str:
    """Return the hash of a file's weights, by `task.secure.transcript.weights_hash`.

    Raises:
        ConfigError: it cannot be read.
    """
    from safetensors import SafetensorError  # noqa: PLC0415  (few runs need these, which are slow)
    from safetensors.torch import load_file  # noqa: PLC0415

    from task.secure.transcript import weights_hash  # noqa: PLC0415

    try:
        weights = load_file(given.path)
    except (SafetensorError, OSError) as error:
        raise ConfigError(KEY, given.path, f"cannot be read ({error}); {EXPECTED}") from None
    return weights_hash(
        {n: v.float() if v.is_floating_point() else v.long() for n, v in weights.items()}
    )


def hash_of(key: str, path: Path, expected: str) -> str:
    """Return the SHA-256 of a file.

    Args:
        key: the setting that names it.
        path: the file.
        expected: what the setting must be, for the error.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        status = regular(path).stat()
        return _hash(path, status.st_mtime_ns, status.st_size, status.st_ino)
    except OSError as error:
        reason = f"cannot be read: {system_reason(error)}; {expected}"
        raise ConfigError(key, path, reason) from None


def require_unchanged(key: str, path: Path, sha256: str, expected: str) -> None:
    """Refuse a file that has changed since the run was composed.

    Args:
        key: the setting that names it.
        path: the file.
        sha256: its hash when the run was composed.
        expected: what the setting must be, for the error of a file that cannot be read.

    Raises:
        ConfigError: it has changed, or cannot be read.
    """
    if hash_of(key, path, expected) != sha256:
        allowed = "the file has changed since the run was composed; start a new run"
        raise ConfigError(key, path, allowed)


@functools.lru_cache(maxsize=8)
def _hash(path: Path, *state: int) -> str:
    """Return the SHA-256 of a file in a state; a sweep composes many runs with one file."""
    del state
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
