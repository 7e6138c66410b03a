"""Strategies that hold each update once, and combine the updates block by block."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord
from numpy.typing import NDArray

from task.training.device import return_freed_memory

Values = NDArray[Any]  # floating-point numbers of one type
BLOCK_BYTES = 4 * 2**20  # the size of one block, with a row for each client


class ClientMatrix:
    """The clients' updates as the rows of one matrix.

    Args:
        replies: one message for each client. Their arrays are removed, so that the matrix is the
            only copy.

    Attributes:
        rows: each client's update, flattened.
    """

    def __init__(self, replies: Iterable[Message]) -> None:
        records = [next(iter(reply.content.array_records.values())) for reply in replies]
        self._layout = {
            name: (np.dtype(array.dtype), array.shape) for name, array in records[0].items()
        }
        size = sum(math.prod(shape) for _, shape in self._layout.values())
        dtype = np.result_type(*(dtype for dtype, _ in self._layout.values()))
        return_freed_memory()  # that of the replies; below, that of the records
        self.rows: Values = np.empty((len(records), size), dtype)
        for row, record in zip(self.rows, records, strict=True):
            np.concatenate([record.pop(name).numpy() for name in self._layout], None, out=row)
        return_freed_memory()

    def combine(self, rule: Callable[[Values], Values], clients: Sequence[int]) -> ArrayRecord:
        """Return one model, whose numbers a rule computes from those of the clients.

        Args:
            rule: returns one number for each column of a block, which has one row for each client.
            clients: the rows of the blocks, in this order.
        """
        combined, start = ArrayRecord(), 0
        for name, (dtype, shape) in self._layout.items():
            stop = start + math.prod(shape)
            # The blocks of an array are equally wide, and none holds parts of two arrays. So only
            # an array of one number makes a block of one column, whose sum NumPy rounds otherwise.
            count = math.ceil((stop - start) * len(clients) * dtype.itemsize / BLOCK_BYTES)
            parts = np.array_split(self.rows[:, start:stop], max(1, count), axis=1)
            results = [
                rule(np.stack([part[client] for client in clients], dtype=dtype, casting="unsafe"))
                for part in parts
            ]
            combined[name] = Array(np.concatenate(results).reshape(shape))
            start = stop
        return combined


class BlockwiseStrategy(ABC):
    """Aggregates in blocks, with the same bits as Flower's strategy and less memory.

    Flower's strategies copy all updates several times. Here the peak is one copy, or two while
    `select` computes distances.

    It comes before a strategy of Flower among the bases of a class.
    """

    def select(self, rows: Values) -> Sequence[int]:
        """Return the clients whose updates count, in the order in which they are combined.

        Args:
            rows: each client's update, flattened.
        """
        return range(len(rows))

    @abstractmethod
    def combine(self, values: Values) -> Values:
        """Return one number for each column.

        Args:
            values: some numbers of each selected client's update, one row for each.
        """

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord, MetricRecord]:
        """Return the new weights. The arrays of the replies are removed."""
        matrix = ClientMatrix(replies)
        return matrix.combine(self.combine, self.select(matrix.rows)), MetricRecord()
