"""An evaluation request, and the scores."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from task.errors import ProtocolError
from task.protocol.base import Count, Line, Schema
from task.protocol.envelope import Client, Kind, StatefulRequest, TableReply
from task.protocol.tensors import PackedTensors

MAX_SUMMED_LOSS = 1e51  # above float32's largest number for each of 10^12 images


class EvaluateRequest(StatefulRequest):
    """Asks a worker to score the global weights on clients' validation images.

    A client that keeps a part of the model scores the weights together with its part.

    Attributes:
        weights: the global weights.
    """

    weights: PackedTensors


class EvaluateRow(Schema):
    """The global model's score on one client's validation images.

    Attributes:
        client: its number.
        reason: why it has no score; empty if it has.
        examples: the number of images.
        correct: how many of them are classified correctly.
        loss: the summed cross-entropy.
    """

    client: Client
    reason: Line = ""
    examples: Count = 0
    correct: Count = 0
    loss: Annotated[float, Field(ge=0, le=MAX_SUMMED_LOSS)] = 0.0

    @model_validator(mode="after")
    def _correct_at_most_all(self) -> Self:
        if self.correct > self.examples:
            raise ValueError(f"{self.correct} of {self.examples} images are correct")
        return self


class EvaluateReply(TableReply):
    """Scores: an `EvaluateRow` for each client."""

    def row(self, client: int) -> EvaluateRow:
        """Return a client's row.

        Raises:
            ProtocolError: the client failed, its row is missing, or a field is out of bounds.
        """
        row = EvaluateRow.checked(self.fields_of(client))
        if row.reason:
            raise ProtocolError(row.reason)
        return row


EVALUATE = Kind("evaluate", EvaluateRequest, EvaluateReply, counted=True)
