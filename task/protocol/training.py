"""A training request, and the trained models or their sum."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from task.protocol.base import Count, Line, Schema, Seconds
from task.protocol.envelope import MAX_CLIENTS, Client, Kind, StatefulRequest, TableReply
from task.protocol.limits import ReplyLimits, same_tensors
from task.protocol.tensors import PackedTensors

SUM = "sum"  # the key of the sum over a worker's clients, in a group of arrays
MAX_LOSS = 1e39  # above float32's largest number
NO_TENSORS = PackedTensors()

Share = Annotated[float, Field(ge=0, le=1)]
Loss = Annotated[float, Field(ge=-MAX_LOSS, le=MAX_LOSS)]
TermName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]


class TrainRequest(StatefulRequest):
    """Asks a worker to train clients, one after another.

    Attributes:
        shares: for each of them, its weight in the round's mean, if the worker is to send the sum
            of what it trains; empty if each model is to be sent by itself.
        max_norm: the largest update norm; 0 for any.
        weights: the global weights.
        broadcast: what the method's server update sends to every client.
    """

    shares: Annotated[list[Share], Field(max_length=MAX_CLIENTS)]
    max_norm: Annotated[float, Field(ge=0)] = 0.0
    weights: PackedTensors
    broadcast: PackedTensors = NO_TENSORS

    def reply_limits(self) -> ReplyLimits:
        summed = bool(self.shares)
        sent = {"weights": self.weights, "extra": self.broadcast}
        arrays = {
            f"{group}/{key}": same_tensors(tensors, summed)
            for group, tensors in sent.items()
            for key in ([SUM] if summed else self.clients)
        }
        return ReplyLimits(super().reply_limits().header, arrays)

    @model_validator(mode="after")
    def _one_entry_a_client(self) -> Self:
        if len(self.shares) not in (0, len(self.clients)):
            raise ValueError("shares must have one entry for each client, or none")
        return self


class TrainRow(Schema):
    """The outcome of one client's training.

    Attributes:
        client: its number.
        device: what it was trained on.
        reason: why it failed; empty if it did not.
        examples: the number of images it was trained on.
        seconds: the duration of its training.
        losses: the mean of each loss term over all images seen, unweighted.
    """

    client: Client
    device: Annotated[str, Field(pattern=r"^[a-z]{1,20}$")]
    reason: Line = ""
    examples: Count = 0
    seconds: Seconds = 0.0
    losses: dict[TermName, Loss] = Field(default_factory=dict, max_length=100)


class TrainReply(TableReply):
    """Trained models, or their sum.

    Attributes:
        rows: a `TrainRow` for each client.
        weights: each client's trained model by its number, or the `SUM` over the trained clients,
            int64, as `task.exact_sum.ExactSum` gives it.
        extra: what the method sends in addition, under the same keys.
    """

    weights: dict[str, PackedTensors]
    extra: dict[str, PackedTensors]

    def row(self, client: int) -> TrainRow:
        """Return a client's row.

        Raises:
            ProtocolError: it is missing, or a field is out of bounds.
        """
        return TrainRow.checked(self.fields_of(client))


TRAIN = Kind("train", TrainRequest, TrainReply, counted=True)
