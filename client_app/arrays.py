"""Tensors as they are sent and received; see `task.wire`."""

from collections.abc import Mapping

from flwr.app import Array, ArrayRecord, RecordDict
from torch import Tensor

from task import wire


def pack(tensors: Mapping[str, Tensor]) -> ArrayRecord:
    """Tensors on the CPU as they are sent."""
    return ArrayRecord({wire.PACKED: Array(wire.pack(tensors))})


def unpack(content: RecordDict, name: str) -> dict[str, Tensor]:
    """What a message holds under a name; empty when there is nothing.

    Raises:
        KeyError, SafetensorError: it is of another form.
    """
    record = content.array_records.get(name)
    return {} if record is None else wire.unpack(record[wire.PACKED].numpy())
