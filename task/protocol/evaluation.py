"""An evaluation request, and the scores."""

from typing import Self

from pydantic import model_validator

from task.protocol.base import Count, Schema
from task.protocol.envelope import Client, Clients, Request, TableReply
from task.protocol.tensors import PackedTensors


class EvaluateRequest(Request):
    """Asks a worker to score the global weights on clients' validation images.

    Attributes:
        clients: which ones.
        weights: the global weights.
    """

    clients: Clients
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
    loss: float

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
