"""Weights on the server: arrays by name, and what they are read from and turned into."""

from collections.abc import Mapping

import numpy as np
import torch
from flwr.app import Array, ArrayRecord
from numpy.typing import NDArray
from safetensors.numpy import save
from torch import Tensor

from task import wire

Weights = dict[str, NDArray[np.generic]]
Readable = Mapping[str, NDArray[np.generic]]  # weights that are only looked at


def to_record(weights: Readable) -> ArrayRecord:
    """Weights as Flower's strategies take them."""
    return ArrayRecord({name: Array(value) for name, value in weights.items()})


def from_record(record: ArrayRecord) -> Weights:
    """The arrays of a record, by name."""
    return {name: array.numpy() for name, array in record.items()}


def pack(weights: Weights) -> ArrayRecord:
    """Weights as they are sent; see `task.wire`."""
    return ArrayRecord({wire.PACKED: Array(wire.pack(to_tensors(weights)))})


def unpack(record: ArrayRecord) -> Weights:
    """The weights that were sent.

    Raises:
        KeyError, SafetensorError: it holds none.
    """
    return from_tensors(wire.unpack(record[wire.PACKED].numpy()))


def as_bytes(weights: Weights, metadata: dict[str, str] | None = None) -> bytes:
    """Weights as a safetensors file has them; equal weights are equal bytes."""
    return save({name: np.asarray(value, order="C") for name, value in weights.items()}, metadata)


def is_float(value: NDArray[np.generic]) -> bool:
    """Whether an array holds weights or statistics, and no counter."""
    return bool(np.issubdtype(value.dtype, np.floating))


def to_tensors(weights: Readable) -> dict[str, Tensor]:
    """Weights as tensors that share their memory."""
    return {name: torch.from_numpy(value) for name, value in weights.items()}


def from_tensors(tensors: Mapping[str, Tensor]) -> Weights:
    """Tensors on the CPU as arrays that share their memory."""
    return {name: tensor.numpy() for name, tensor in tensors.items()}
