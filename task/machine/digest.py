"""A hash of named arrays, by which a reader recognises a file that is whole."""

import hashlib
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

DIGEST = "sha256"  # the metadata entry of a safetensors file with its digest


def digest(facts: str, arrays: Mapping[str, NDArray[np.generic]]) -> str:
    """Return the SHA-256 of a text and of arrays with their names, types and shapes."""
    found = hashlib.sha256(facts.encode())
    for name in sorted(arrays):
        value = arrays[name]
        found.update(f"{name} {value.dtype} {value.shape}".encode())
        found.update(value.tobytes())
    return found.hexdigest()
