"""The requests of the stages of a masked sum, and the replies that hold more than rows."""

from typing import Annotated, Literal

from pydantic import Field
from torch import nn

from task.errors import ProtocolError
from task.models.layers.norm import batch_norm_layers
from task.protocol.after.moments import moments_bytes
from task.protocol.after.sums import SumsRequest
from task.protocol.base import Fingerprint, Line, Nonce
from task.protocol.envelope import Client, Kind, TableReply, TableRequest
from task.protocol.limits import NAMES_AND_SHAPES, SHORT_HEADER, ReplyLimits, same_tensors
from task.protocol.masking.rows import MAX_PARTICIPANTS, Advert, Box, Number, Signature
from task.protocol.tensors import PackedTensors
from task.protocol.training import NO_TENSORS, TrainRequest, TrainRow

KEYS_BYTES, BOX_BYTES, SHARE_BYTES = 2_000, 500, 200  # of a row, and of each entry of its tables
VECTOR = "vector"  # the tensor of a masked sum
ROW_BYTES = 4_000  # a row without a table: a reason of 1,000 characters

Participants = Annotated[list[Client], Field(max_length=MAX_PARTICIPANTS)]
Purpose = Literal["train", "validate", "measure", "features", "columns"]
Least = Annotated[int, Field(ge=1, le=MAX_PARTICIPANTS)]
Boxes = Annotated[
    dict[Number, Annotated[dict[Number, Box], Field(max_length=MAX_PARTICIPANTS)]],
    Field(max_length=MAX_PARTICIPANTS),
]


class MaskedRequest(TableRequest):
    """What the requests of a masked sum hold.

    Attributes:
        purpose: what is added up: updates, scores of the global model, the moments of a layer's
            inputs, features, or columns.
        model: the hash of the global weights, by `task.secure.transcript.weights_hash`.
        keys_nonce: random, and new whenever keys are collected; the same in all stages that follow.
        layer: the name of the layer that is measured; empty for another purpose.
        parameters: the hash of the model without its statistics; likewise.
    """

    purpose: Purpose
    model: Fingerprint
    keys_nonce: Nonce
    layer: Line = ""
    parameters: Fingerprint | Literal[""] = ""


class KeysRequest(MaskedRequest):
    """Asks participants for new keys."""

    def reply_limits(self) -> ReplyLimits:
        return ReplyLimits(SHORT_HEADER + (KEYS_BYTES + ROW_BYTES) * len(self.clients))


class SharesRequest(MaskedRequest):
    """Tells participants of each other, and asks for shares of their secrets.

    Attributes:
        threshold: how many participants the round needs.
        uniform: whether all updates weigh the same.
        adverts: of everyone who takes part.
        absent: the round's other clients, who have no advert.
    """

    threshold: Least
    uniform: bool
    adverts: Annotated[list[Advert], Field(max_length=MAX_PARTICIPANTS)]
    absent: Participants

    def reply_limits(self) -> ReplyLimits:
        row = ROW_BYTES + BOX_BYTES * len(self.adverts)
        return ReplyLimits(SHORT_HEADER + row * len(self.clients))


class ReportRequest(TrainRequest, MaskedRequest):
    """Asks participants for a masked update.

    `shares` is empty: participants compute their weights themselves. `accepted` is 0 for each
    client, because clients keep no state with masks.

    Attributes:
        members: everyone whose shares have been sent on.
        boxes: for each client of the request, by sender, the shares that are sealed for it.
    """

    purpose: Literal["train"]
    members: Participants
    boxes: Boxes

    def reply_limits(self) -> ReplyLimits:
        arrays = {"masked": same_tensors(self.weights, summed=True)}
        return ReplyLimits(SHORT_HEADER + ROW_BYTES * len(self.clients), arrays)


class ReportReply(TableReply):
    """The sum of a worker's masked updates.

    Attributes:
        rows: a `TrainRow` for each client, without losses.
        masked: one tensor, `VECTOR`, int64: the sum modulo 2^64; empty if every client failed.
    """

    masked: PackedTensors = NO_TENSORS

    def row(self, client: int) -> TrainRow:
        """Return a client's row.

        Raises:
            ProtocolError: it is missing, a field is out of bounds, or it tells a loss.
        """
        row = TrainRow.checked(self.fields_of(client))
        if row.losses:
            raise ProtocolError("it tells its losses outside the masked sum")
        return row


class ScoreRequest(MaskedRequest):
    """Asks participants to score the global weights on their validation images, masked.

    The purpose is fixed: scores with the masks of a sum of updates would take these masks off the
    first numbers of another participant's update.

    Attributes:
        weights: the global weights.
        members: everyone whose shares have been sent on.
        boxes: for each client of the request, by sender, the shares that are sealed for it.
    """

    purpose: Literal["validate"]
    weights: PackedTensors
    members: Participants
    boxes: Boxes

    def reply_limits(self) -> ReplyLimits:
        header = SHORT_HEADER + ROW_BYTES * len(self.clients)
        return ReplyLimits(header, {"masked": SHORT_HEADER})


class ScoreReply(TableReply):
    """The sum of a worker's masked scores, or of its masked moments or features.

    Attributes:
        rows: a `ScoreRow` for each client.
        masked: one tensor, `VECTOR`, int64: the sum modulo 2^64; empty if every client failed.
    """

    masked: PackedTensors = NO_TENSORS


class MeasureRequest(MaskedRequest):
    """Asks participants for the moments of a layer's inputs on their training images, masked.

    Attributes:
        channels: the number of the layer's channels.
        images: the largest number of images of a client that are measured.
        weights: the global weights, with the statistics of the layers before.
        members: everyone whose shares have been sent on.
        boxes: for each client of the request, by sender, the shares that are sealed for it.
    """

    purpose: Literal["measure"]
    channels: Annotated[int, Field(ge=1, le=10**6)]
    images: Annotated[int, Field(ge=2)]
    weights: PackedTensors
    members: Participants
    boxes: Boxes

    def parts(self, model: nn.Module) -> int:
        return len(batch_norm_layers(model))

    def reply_limits(self) -> ReplyLimits:
        header = SHORT_HEADER + ROW_BYTES * len(self.clients)
        return ReplyLimits(header, {"masked": moments_bytes(self.channels) + NAMES_AND_SHAPES})


class SumFeaturesRequest(MaskedRequest, SumsRequest):
    """Asks participants for sums of features of their training images, masked.

    Attributes:
        members: everyone whose shares have been sent on.
        boxes: for each client of the request, by sender, the shares that are sealed for it.
    """

    purpose: Literal["features"]
    members: Participants
    boxes: Boxes

    def reply_limits(self) -> ReplyLimits:
        header = SHORT_HEADER + ROW_BYTES * len(self.clients)
        return ReplyLimits(header, {"masked": self.form.bytes + NAMES_AND_SHAPES})


class AgreeRequest(MaskedRequest):
    """Tells participants who has reported, and asks for their signatures.

    Attributes:
        survivors: the participants whose updates are in the sum.
    """

    survivors: Participants


class UnmaskRequest(MaskedRequest):
    """Asks participants for shares of the others' secrets.

    Attributes:
        signatures: by survivor, its signature of the survivors.
    """

    signatures: Annotated[dict[Number, Signature], Field(max_length=MAX_PARTICIPANTS)]
    members: Least

    def reply_limits(self) -> ReplyLimits:
        row = ROW_BYTES + SHARE_BYTES * self.members
        return ReplyLimits(SHORT_HEADER + row * len(self.clients))


# The stages of a masked round, in their order.
KEYS = Kind("query.keys", KeysRequest, TableReply)
SHARES = Kind("query.shares", SharesRequest, TableReply)
REPORT = Kind("train.report", ReportRequest, ReportReply, counted=True)
SCORE = Kind("evaluate.score", ScoreRequest, ScoreReply, counted=True)
MEASURE = Kind("query.measure", MeasureRequest, ScoreReply, counted=True)
SUM_FEATURES = Kind("query.features", SumFeaturesRequest, ScoreReply, counted=True)
AGREE = Kind("query.agree", AgreeRequest, TableReply)
UNMASK = Kind("query.unmask", UnmaskRequest, TableReply)
