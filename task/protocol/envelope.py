"""What every request and every reply holds.

A new kind of message is two classes and one `Kind` beside them, and one line in
`client_app.kinds`. The weights that are sent may be a part of the model: a reply must hold the
tensors that its request held, and no others.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Self, TypeVar

from pydantic import Field, model_validator

from task.errors import ProtocolError
from task.fingerprint import fingerprint_for
from task.protocol.base import Fingerprint, Message, Nonce, RoundNumber, RunId, Seconds
from task.protocol.limits import ROW_BYTES, SHORT_HEADER, ReplyLimits

if TYPE_CHECKING:  # it imports PyTorch
    from torch import nn

MAX_CLIENTS = 1_000_000
NONCE_BYTES = 16

Client = Annotated[int, Field(ge=0, le=10**9)]
Clients = Annotated[list[Client], Field(max_length=MAX_CLIENTS)]
Row = dict[str, Any]
Rows = Annotated[list[Row], Field(max_length=MAX_CLIENTS)]


class Request(Message):
    """What every request holds.

    Attributes:
        run: the run's id; clients keep the states of different runs apart by it.
        experiment: a `LocalConfig` as JSON.
        fingerprint: a hash of the code that the server runs.
        round: the server's round, from 1; 0 before the first.
        attempt: which attempt at this round it belongs to, from 1.
        seconds: how long the server waits for the reply; 0 for any time.
        nonce: random, and different in each request; only the reply to it has the same.
    """

    run: RunId
    experiment: Annotated[str, Field(max_length=1_000_000)]
    fingerprint: Fingerprint
    round: RoundNumber = 0
    attempt: Annotated[int, Field(ge=1, le=10**6)] = 1
    seconds: Seconds = 0.0
    nonce: Nonce = Field(default_factory=lambda: secrets.token_hex(NONCE_BYTES))

    def reply_limits(self) -> ReplyLimits:
        """Return the size of the largest reply to it."""
        return ReplyLimits()

    def parts(self, model: "nn.Module") -> int:
        """Return how many requests of its kind a round needs for a model."""
        del model
        return 1


class TableRequest(Request):
    """A request whose reply has one row for each client.

    Attributes:
        clients: which ones.
    """

    clients: Clients

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        if len(set(self.clients)) < len(self.clients):
            raise ValueError("clients must name each client once")
        return self

    def reply_limits(self) -> ReplyLimits:
        return ReplyLimits(SHORT_HEADER + ROW_BYTES * len(self.clients))


class StatefulRequest(TableRequest):
    """A request to clients that may keep a state between rounds.

    Attributes:
        accepted: for each client, the round of its last accepted update; 0 for none.
    """

    accepted: Annotated[list[RoundNumber], Field(max_length=MAX_CLIENTS)]

    @model_validator(mode="after")
    def _one_round_a_client(self) -> Self:
        if len(self.accepted) != len(self.clients):
            raise ValueError("accepted must have one entry for each client")
        return self


class Reply(Message):
    """What every reply holds, so that the server takes it for no other message's reply.

    Attributes:
        compared: the fields that must equal the request's.
        run: the request's.
        round: the request's.
        attempt: the request's.
        fingerprint: a hash of the code that answers.
        nonce: the request's.
    """

    compared: ClassVar[tuple[str, ...]] = ("run", "round", "attempt", "fingerprint", "nonce")

    run: RunId
    round: RoundNumber
    attempt: Annotated[int, Field(ge=1, le=10**6)]
    fingerprint: Fingerprint
    nonce: Nonce

    @classmethod
    def to(cls, request: Request, **fields: Any) -> Self:
        """Build the reply to a request."""
        return cls(
            run=request.run,
            round=request.round,
            attempt=request.attempt,
            fingerprint=fingerprint_for(request.experiment),
            nonce=request.nonce,
            **fields,
        )

    def check_answers(self, request: Request) -> None:
        """Refuse a reply to another message, or by other code.

        Raises:
            ProtocolError: it is.
        """
        for name in self.compared:
            found, expected = getattr(self, name), getattr(request, name)
            if found != expected:
                raise ProtocolError(
                    f"its reply is for another {name}: {found!r} instead of {expected!r}"
                )


class TableReply(Reply):
    """A reply with one row for each client. A row that cannot be used costs its client alone.

    Attributes:
        rows: each row's fields; read one by its client's number.
    """

    rows: Rows

    @model_validator(mode="after")
    def _each_client_once(self) -> Self:
        numbers = [row.get("client") for row in self.rows]
        if any(type(number) is not int for number in numbers):
            raise ValueError("every row must name its client")
        if len(set(numbers)) < len(numbers):
            raise ValueError("the rows name a client twice")
        return self

    def check_answers(self, request: Request) -> None:
        super().check_answers(request)
        asked = set(request.clients) if isinstance(request, TableRequest) else set()
        if not self._by_client.keys() <= asked:
            raise ProtocolError("its rows name clients that were not asked for")

    def fields_of(self, client: int) -> Mapping[str, Any]:
        """Return the fields of a client's row.

        Raises:
            ProtocolError: there is no such row.
        """
        if client not in self._by_client:
            raise ProtocolError("the worker's reply has no row for it")
        return self._by_client[client]

    def reports_failure(self, client: int) -> bool:
        """Return whether the worker says that it failed for a client, or does not name it."""
        return client not in self._by_client or bool(self._by_client[client].get("reason"))

    @cached_property
    def _by_client(self) -> dict[int, Row]:
        return {row["client"]: row for row in self.rows}


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
