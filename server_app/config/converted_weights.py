"""Weights in another form than a network's, converted once to a safetensors file in the cache.

``torch.save`` wrote them, or they are those of a run with ``tune=lora``: a file in the cache has
the adapters added to their layers.
"""

from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from server_app.config.file_hash import is_pickled
from task.errors import ConfigError, system_reason
from task.given_weights import EXPECTED, KEY, cached
from task.machine.files import draft_of
from task.models.layers.low_rank import merged

INSIDE = ("state_dict", "model")  # where a checkpoint may keep the weights
UNREADABLE = (SafetensorError, UnpicklingError, RuntimeError, EOFError, KeyError, ValueError)


def converted(path: Path, sha256: str) -> Path:
    """Return the safetensors file with the network's weights that are in another file.

    A file of ``torch.save`` is read with ``weights_only``, so that it runs no code.

    Args:
        path: the file.
        sha256: its hash, which names the result.

    Raises:
        ConfigError: it cannot be read, holds no tensors by name, or the cache cannot be written.
    """
    place = cached(sha256)
    try:
        if not place.exists():
            if is_pickled(path):
                tensors = tensors_in(torch.load(path, map_location="cpu", weights_only=True))
            else:
                tensors = merged(load_file(path))
            place.parent.mkdir(parents=True, exist_ok=True)
            with draft_of(place) as draft:
                save_file({name: value.contiguous() for name, value in tensors.items()}, draft)
    except UNREADABLE as error:
        reason = str(error).strip().split("\n")[0]
        raise ConfigError(KEY, path, f"is not a file of weights ({reason}); {EXPECTED}") from None
    except OSError as error:
        raise ConfigError(KEY, path, f"cannot be converted: {system_reason(error)}") from None
    return place


def tensors_in(stored: Any) -> dict[str, Tensor]:
    """Return the tensors of a checkpoint by name, each with memory of its own.

    Raises:
        ValueError: it has none.
    """
    for key in INSIDE:
        if isinstance(stored, dict) and isinstance(stored.get(key), dict):
            stored = stored[key]
    values = stored.items() if isinstance(stored, dict) else ()
    found = {str(name): value.clone() for name, value in values if isinstance(value, Tensor)}
    if not found:
        raise ValueError("it holds no tensors by name")
    return found
