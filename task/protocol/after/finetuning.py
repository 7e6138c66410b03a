"""A request to fine-tune the final model at clients, and the scores before and after."""

from task.errors import ProtocolError
from task.protocol.base import Line, Schema
from task.protocol.envelope import Client, Kind, StatefulRequest, TableReply
from task.protocol.evaluation import EvaluateRow
from task.protocol.tensors import PackedTensors


class FinetuneRequest(StatefulRequest):
    """Asks a worker to fine-tune the final model on each client's images, and to score it.

    The experiment says how. The fine-tuned models are not sent.

    Attributes:
        weights: the global weights.
    """

    weights: PackedTensors


class FinetuneRow(Schema):
    """One client's scores on its validation images.

    Attributes:
        client: its number.
        reason: why it has none; empty if it has.
        before: the score of the final model; None if it has none.
        after: the score of the fine-tuned model; None if it has none.
    """

    client: Client
    reason: Line = ""
    before: EvaluateRow | None = None
    after: EvaluateRow | None = None


class FinetuneReply(TableReply):
    """Scores: a `FinetuneRow` for each client."""

    def scores(self, client: int) -> tuple[EvaluateRow, EvaluateRow]:
        """Return a client's scores before and after.

        Raises:
            ProtocolError: the client failed, its row is missing, or a field is out of bounds.
        """
        row = FinetuneRow.checked(self.fields_of(client))
        if row.reason:
            raise ProtocolError(row.reason)
        if row.before is None or row.after is None:
            raise ProtocolError("it has no scores and no reason")
        return row.before, row.after


FINETUNE = Kind("train.finetune", FinetuneRequest, FinetuneReply, counted=True)
