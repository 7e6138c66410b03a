"""A request for the sums of the columns of clients' rows, and these sums."""

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from task.data.column_sums import SUMS, problem_with
from task.errors import ProtocolError
from task.protocol.after.sent_tensors import TensorsReply
from task.protocol.envelope import Kind, TableRequest
from task.protocol.limits import NAMES_AND_SHAPES, ReplyLimits

NAME = "sums"
NUMBER_BYTES = 8


def sums_bytes(columns: int) -> int:
    """Return the size of the sums of so many columns."""
    return SUMS * NUMBER_BYTES * columns


class ColumnsRequest(TableRequest):
    """Asks a worker for the sums of each column of clients' rows, before round 1.

    Attributes:
        columns: the number of columns of numbers.
    """

    columns: Annotated[int, Field(ge=1, le=100_000)]

    def reply_limits(self) -> ReplyLimits:
        most = sums_bytes(self.columns) + NAMES_AND_SHAPES
        arrays = {f"sent/{client}": most for client in self.clients}
        return ReplyLimits(super().reply_limits().header, arrays)


class ColumnsReply(TensorsReply):
    """By client, the tensor that `check_sums` describes."""


def check_sums(found: dict[str, Tensor], columns: int, rows: int) -> Tensor:
    """Return the sums of a client's columns, after checking them.

    Args:
        found: ``sums``, [SUMS, columns] int64.
        columns: the number of columns.
        rows: the number of the client's rows.

    Raises:
        ProtocolError: a name, shape, type or number is not allowed.
    """
    sums = found.get(NAME)
    if len(found) != 1 or sums is None:
        raise ProtocolError(f"its only array must be {NAME}")
    if sums.dtype != torch.int64 or tuple(sums.shape) != (SUMS, columns):
        raise ProtocolError(f"{NAME} must be int64({SUMS}, {columns})")
    if problem := problem_with(sums.numpy(), rows):
        raise ProtocolError(problem)
    return sums


COLUMNS = Kind("query.columns", ColumnsRequest, ColumnsReply, counted=True)
