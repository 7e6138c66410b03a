"""The messages: what the server asks a worker, and what the worker answers.

A new kind of message is two classes and one `Kind`. A kind whose message type has an action, such
as ``train.report``, adds another exchange to a round. The weights that are sent may be a part of
the model: a reply must hold the tensors that its request held, and no others.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from task.protocol.after.finetuning import FinetuneReply, FinetuneRequest
from task.protocol.after.moments import MomentsReply, MomentsRequest
from task.protocol.after.personal import PersonalReply, PersonalRequest
from task.protocol.after.statistics import StatisticsReply, StatisticsRequest
from task.protocol.envelope import Reply, Request, TableReply
from task.protocol.evaluation import EvaluateReply, EvaluateRequest, EvaluateRow
from task.protocol.masking.messages import (
    AgreeRequest,
    KeysRequest,
    ReportReply,
    ReportRequest,
    ScoreReply,
    ScoreRequest,
    SharesRequest,
    UnmaskRequest,
)
from task.protocol.registration import RegistrationReply, RegistrationRequest
from task.protocol.training import SUM, TrainReply, TrainRequest, TrainRow

__all__ = [
    "AGREE",
    "EVALUATE",
    "FINETUNE",
    "FORGET",
    "KEYS",
    "KINDS",
    "MOMENTS",
    "PERSONAL",
    "REGISTER",
    "REPORT",
    "SCORE",
    "SHARES",
    "STATISTICS",
    "SUM",
    "TRAIN",
    "UNMASK",
    "EvaluateReply",
    "EvaluateRequest",
    "EvaluateRow",
    "FinetuneReply",
    "FinetuneRequest",
    "ForgetReply",
    "ForgetRequest",
    "Kind",
    "MomentsReply",
    "MomentsRequest",
    "PersonalReply",
    "PersonalRequest",
    "RegistrationReply",
    "RegistrationRequest",
    "Reply",
    "Request",
    "StatisticsReply",
    "StatisticsRequest",
    "TrainReply",
    "TrainRequest",
    "TrainRow",
]


class ForgetRequest(Request):
    """Asks a worker to delete the states that the run's clients keep."""


class ForgetReply(Reply):
    """Confirms that the states are deleted."""


Asked = TypeVar("Asked", bound=Request)
Answer = TypeVar("Answer", bound=Reply)


@dataclass(frozen=True)
class Kind(Generic[Asked, Answer]):
    """A kind of message.

    Attributes:
        message_type: Flower's name for it, with an action after a dot if there are several.
        request: the class of its requests.
        reply: the class of its replies.
        counted: whether a reply depends on a site's images and the request's model, so that an
            owner's approval holds for a number of them. What is unmasked has a ledger of its own.
    """

    message_type: str
    request: type[Asked]
    reply: type[Answer]
    counted: bool = False

    @property
    def action(self) -> str:
        """The part of the message type after the dot; empty if it has none."""
        return self.message_type.partition(".")[2]


REGISTER = Kind("query", RegistrationRequest, RegistrationReply)
TRAIN = Kind("train", TrainRequest, TrainReply, counted=True)
EVALUATE = Kind("evaluate", EvaluateRequest, EvaluateReply, counted=True)
FORGET = Kind("query.forget", ForgetRequest, ForgetReply)
FINETUNE = Kind("train.finetune", FinetuneRequest, FinetuneReply, counted=True)
PERSONAL = Kind("query.personal", PersonalRequest, PersonalReply, counted=True)
MOMENTS = Kind("query.moments", MomentsRequest, MomentsReply, counted=True)
STATISTICS = Kind("query.statistics", StatisticsRequest, StatisticsReply, counted=True)
# The stages of a masked round, in their order.
KEYS = Kind("query.keys", KeysRequest, TableReply)
SHARES = Kind("query.shares", SharesRequest, TableReply)
REPORT = Kind("train.report", ReportRequest, ReportReply, counted=True)
SCORE = Kind("evaluate.score", ScoreRequest, ScoreReply, counted=True)
AGREE = Kind("query.agree", AgreeRequest, TableReply)
UNMASK = Kind("query.unmask", UnmaskRequest, TableReply)
KINDS: Sequence[Kind[Any, Any]] = (
    REGISTER, TRAIN, EVALUATE, FORGET, FINETUNE, PERSONAL, STATISTICS, MOMENTS, KEYS, SHARES,
    REPORT, SCORE, AGREE, UNMASK,
)  # fmt: skip
