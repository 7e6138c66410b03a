"""The names under which server and clients find things in each other's messages.

A request holds ``ARRAYS`` (the global weights), ``BROADCAST`` (what the method's server half sends)
and ``REQUEST`` (``run``, its id; ``experiment``, a `LocalConfig` as JSON; ``fingerprint``;
``round``; ``clients``; ``accepted``, for each of them the last round it was accepted in, or 0;
``shares``, for each client its
weight in the round's mean, where the worker is to add up its clients; else empty; ``seconds``,
after which nobody waits for the reply any more, or 0; ``most_norm``, how long a client's update may
be, or 0).
Its reply holds ``ABOUT``, the request's ``run`` and ``round`` and the ``fingerprint`` of the code
that answers, and one record ``CLIENTS``, a table with a row for each client of the cohort, and the
arrays of each under ``key(kind, client)``; where the worker adds up, one sum under
``key(kind, SUM)``, int64, as `task.averaging.ExactSum` has them. A record costs Flower
milliseconds, a row of a table next to nothing. So does an array: between machines each takes
requests and transactions of its own, at every hop. So a model is one array, ``PACKED``.
"""

from collections.abc import Mapping, Sequence
from math import nan
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.torch import load, save
from torch import Tensor

ARRAYS = "arrays"
BROADCAST = "broadcast"
REQUEST = "request"
INTRODUCTION = "introduction"

ABOUT = "about"
CLIENTS = "clients"
EXTRA = "extra"
SUM = "sum"
PACKED = "packed"

Cell = str | int | float

LOSS_PREFIX = "loss/"

FORGET = "forget"

IN_PROCESS = "in-process"  # in a node's settings: it is simulated in the server's own process


def key(kind: str, client: int | str) -> str:
    """Where a client's record of one kind, or that of the `SUM`, stands in its cohort's reply."""
    return f"{kind}/{client}"


def pack(tensors: Mapping[str, Tensor]) -> NDArray[np.uint8]:
    """Tensors on the CPU as the bytes of a safetensors file."""
    contiguous = {name: tensor.contiguous() for name, tensor in tensors.items()}
    return np.frombuffer(save(contiguous), np.uint8)


def unpack(packed: NDArray[np.generic]) -> dict[str, Tensor]:
    """The tensors that `pack` made bytes of, in no particular order.

    Raises:
        SafetensorError: they are no such bytes.
    """
    return load(packed.tobytes())


def columns(rows: Sequence[Mapping[str, Cell]]) -> dict[str, Any]:
    """A table as a record holds it: a list for each column, NaN where a row has no such number."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name, nan) for row in rows] for name in names}


def rows(table: Mapping[str, object]) -> dict[int, dict[str, Cell]]:
    """The rows that `columns` made a table of, by their ``client``.

    Raises:
        ValueError: they do not make a table.
    """
    lists = {name: column for name, column in table.items() if isinstance(column, list)}
    if len(lists) < len(table) or len({len(column) for column in lists.values()}) != 1:
        raise ValueError("its table has columns of different lengths")
    if len(set(lists["client"])) < len(lists["client"]):
        raise ValueError("its table names a client twice")
    return {
        client: {name: column[place] for name, column in lists.items()}
        for place, client in enumerate(lists["client"])
    }
