"""A request for the masked sums of the columns of clients' rows."""

from typing import Annotated, Literal

from pydantic import Field

from task.protocol.columns import sums_bytes
from task.protocol.envelope import Kind
from task.protocol.limits import NAMES_AND_SHAPES, SHORT_HEADER, ReplyLimits
from task.protocol.masking.messages import (
    ROW_BYTES,
    Boxes,
    MaskedRequest,
    Participants,
    ScoreReply,
)
from task.protocol.tensors import PackedTensors


class MaskedColumnsRequest(MaskedRequest):
    """Asks participants for the sums of the columns of their rows, masked.

    Attributes:
        columns: the number of columns of numbers.
        weights: the initial weights, to which the keys of the sum belong.
        members: everyone whose shares have been sent on.
        boxes: for each client of the request, by sender, the shares that are sealed for it.
    """

    purpose: Literal["columns"]
    columns: Annotated[int, Field(ge=1, le=100_000)]
    weights: PackedTensors
    members: Participants
    boxes: Boxes

    def reply_limits(self) -> ReplyLimits:
        header = SHORT_HEADER + ROW_BYTES * len(self.clients)
        return ReplyLimits(header, {"masked": sums_bytes(self.columns) + NAMES_AND_SHAPES})


MASKED_COLUMNS = Kind("query.masked_columns", MaskedColumnsRequest, ScoreReply, counted=True)
