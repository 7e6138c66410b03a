"""Weights as NumPy arrays by name, for Flower's strategies and for files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from flwr.app import Array, ArrayRecord
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save
from torch import Tensor

from task.machine.regular import regular

Weights = dict[str, NDArray[np.generic]]
Readable = Mapping[str, NDArray[np.generic]]  # weights that are only read

NUMPYS = 1  # `numpy.dtype.isbuiltin` of NumPy's own types


def to_record(weights: Readable) -> ArrayRecord:
    """Return weights as the record that Flower's strategies take."""
    return ArrayRecord({name: Array(value) for name, value in weights.items()})


def from_record(record: ArrayRecord) -> Weights:
    """Return the arrays of a record, by name."""
    return {name: array.numpy() for name, array in record.items()}


def as_bytes(weights: Weights, metadata: dict[str, str] | None = None) -> bytes:
    """Return the bytes of a safetensors file; equal weights give equal bytes."""
    return save({name: np.asarray(value, order="C") for name, value in weights.items()}, metadata)


def from_file(path: Path) -> tuple[Weights, Mapping[str, str]]:
    """Return the arrays of a safetensors file by name, and its metadata.

    Raises:
        OSError: it cannot be read.
        SafetensorError: it is damaged, or holds numbers of a type that NumPy does not have.
    """
    with safe_open(regular(path), "numpy") as file:
        names = file.keys()
        return {name: read_array(file, name) for name in names}, file.metadata() or {}


def read_array(file: Any, name: str) -> NDArray[np.generic]:
    """Return an array of a safetensors file that `safe_open` opened for NumPy.

    Raises:
        SafetensorError: it is damaged, or has numbers of a type that NumPy does not have.
    """
    try:
        array: NDArray[np.generic] = file.get_tensor(name)
    except (AttributeError, TypeError) as error:  # the library looks its type up in NumPy
        raise SafetensorError(str(error)) from None
    if array.dtype.isbuiltin != NUMPYS:  # an imported package, for instance ml_dtypes, added it
        raise SafetensorError(f"NumPy does not have the type {array.dtype} of {name}")
    return array


def to_tensors(weights: Readable) -> dict[str, Tensor]:
    """Return tensors that share the memory of the arrays."""
    return {name: torch.from_numpy(value) for name, value in weights.items()}


def from_tensors(tensors: Mapping[str, Tensor]) -> Weights:
    """Return arrays that share the memory of the tensors, which are on the CPU."""
    return {name: tensor.numpy() for name, tensor in tensors.items()}
