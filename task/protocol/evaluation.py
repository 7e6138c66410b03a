"""An evaluation request, and the scores."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from task.protocol.base import Count, Schema
from task.protocol.envelope import Client, StatefulRequest, TableReply
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
        examples: the number of images.
        correct: how many of them are classified correctly.
        loss: the summed cross-entropy.
    """

    client: Client
    examples: Count
    correct: Count
    loss: Annotated[float, Field(ge=0, le=MAX_SUMMED_LOSS)]

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
            ProtocolError: it is missing, or a field is out of bounds.
        """
        return EvaluateRow.checked(self.fields_of(client))
