"""Sending requests over a Flower grid, and waiting for the replies."""

import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid

from server_app.nodes.collection import collect
from server_app.nodes.failure import Answer, Failure, check_worker_alive, last_line
from task.errors import ProtocolError
from task.fingerprint import fingerprint_for
from task.protocol.envelope import Kind, Request
from task.protocol.limits import ReplyLimits
from task.protocol.packed import (
    DATA,
    HEADER,
    JSON,
    SALT,
    SALT_BYTES,
    Packed,
    pieces_of,
    place_of,
)
from task.protocol.signature import verify

LIFETIME = 2.0  # of a message, in timeouts: a site that returns later finds no outdated work
MIN_PAUSE, MAX_PAUSE = 0.01, 0.02  # seconds between two looks for replies
SITES_MAX_PAUSE = 0.2  # each look is a request that costs the SuperLink 10 ms

Asked = TypeVar("Asked", bound=Request)


class RunIdentity(NamedTuple):
    """What every message of a run says about it.

    Attributes:
        id: unique to the run; clients keep the states of different runs apart by it.
        experiment: the `LocalConfig` as JSON.
    """

    id: str
    experiment: str

    @property
    def fingerprint(self) -> str:
        """A hash of the code that the server and its clients run."""
        return fingerprint_for(self.experiment)


@dataclass
class AddressedRequest(Generic[Asked]):
    """A request with its address.

    Attributes:
        node_id: the SuperNode that it goes to.
        request: what is asked.
        public_key: the key with which a site must sign the reply; empty for a simulated worker.
    """

    node_id: int
    request: Asked
    public_key: bytes = b""


@dataclass
class RecordWriter:
    """Writes requests as Flower's records. Equal arrays share records, which Flower sends once.

    Flower names a record by its hash. A site that could compute a name, because it knows the
    weights, could register it with other parts first, and the request could then not be sent.

    Attributes:
        records: the records of the arrays so far, by the identity of their bytes.
        salt: random bytes in each record, so that nobody knows its name before it is sent.
    """

    records: dict[int, list[ConfigRecord]] = field(default_factory=dict)
    salt: bytes = field(default_factory=lambda: secrets.token_bytes(SALT_BYTES))

    def message(self, kind: Kind[Any, Any], addressed: AddressedRequest[Any]) -> Message:
        """Write one request."""
        request = addressed.request
        packed = request.pack()
        content = RecordDict({HEADER: ConfigRecord({JSON: packed.header})})
        for name, data in packed.arrays.items():
            if id(data) not in self.records:
                pieces = [ConfigRecord({DATA: piece, SALT: self.salt}) for piece in pieces_of(data)]
                self.records[id(data)] = pieces
            for number, record in enumerate(self.records[id(data)]):
                content[place_of(name, number)] = record
        return Message(
            content, addressed.node_id, kind.message_type,
            ttl=LIFETIME * request.seconds or None, group_id=str(request.round),
        )  # fmt: skip


class Exchange(Generic[Asked, Answer]):
    """Requests on their way. The server is free to work until it asks for the replies.

    Args:
        grid: the grid.
        kind: the kind of message.
        requests: whom to ask for what.
        timeout: how many seconds the replies are waited for.
        simulated: whether the SuperNodes are Ray's. The replies of others must be signed.

    Attributes:
        unanswered: by message id, the places of the requests without an answer so far.
        too_late: the places of those whose reply arrived after the deadline and was dropped.
    """

    def __init__(
        self,
        grid: Grid,
        kind: Kind[Asked, Answer],
        requests: Sequence[AddressedRequest[Asked]],
        timeout: float,
        simulated: bool = False,
    ) -> None:
        self._grid, self._kind, self._simulated = grid, kind, simulated
        self._requests = requests
        self._deadline = time.monotonic() + timeout
        writer = RecordWriter()
        messages = [writer.message(kind, addressed) for addressed in requests]
        pushed = set(grid.push_messages(messages))
        self.unanswered = {
            message.metadata.message_id: place for place, message in enumerate(messages)
        }
        self.too_late: list[int] = []
        self._waiting = self.unanswered.keys() & pushed

    def arrivals(self) -> Iterator[tuple[int, Answer | Failure]]:
        """Yield each request's place and its reply, as replies arrive; at last the failures.

        Raises:
            WorkerLostError: a simulated worker has died.
        """
        pause = MIN_PAUSE
        while self._waiting:
            before = len(self._waiting)
            yield from self.poll()
            if self.over:
                break
            if len(self._waiting) == before:
                time.sleep(pause)
                pause = min(pause * 1.2, MAX_PAUSE if self._simulated else SITES_MAX_PAUSE)
        yield from self.failures()

    @property
    def over(self) -> bool:
        """Whether no reply is waited for any more."""
        return not self._waiting or time.monotonic() >= self._deadline

    def poll(self) -> Iterator[tuple[int, Answer | Failure]]:
        """Yield the place and the reply of each request whose reply has come since the last call.

        Raises:
            WorkerLostError: a simulated worker has died.
        """
        for message_id, message in self._pulled():
            arrived = time.monotonic()
            if message_id not in self._waiting:
                continue
            self._waiting.discard(message_id)
            if arrived < self._deadline:
                place = self.unanswered.pop(message_id)
                yield place, self._read(message, self._requests[place])
            elif not message.has_error():
                self.too_late.append(self.unanswered[message_id])
            # The server's own work since then does not count against the clients.
            self._deadline += time.monotonic() - arrived

    def extend(self, seconds: float) -> None:
        """Wait longer, because the server did other work for so many seconds."""
        self._deadline += seconds

    def failures(self) -> Iterator[tuple[int, Failure]]:
        """Yield the place of each request without an answer, once the exchange is over."""
        for place in self.unanswered.values():
            yield place, Failure("no answer before the round's timeout")

    def replies(self) -> list[Answer | Failure]:
        """Wait for all replies; return them in the order of the requests."""
        found = dict(self.arrivals())
        return [found[place] for place in sorted(found)]

    def limits(self, place: int) -> ReplyLimits:
        """Return the size of the largest reply to a request."""
        return self._requests[place].request.reply_limits()

    def _pulled(self) -> list[tuple[str, Message]]:
        """Return the replies that are there, each with the id of the message that it answers.

        Raises:
            WorkerLostError: a simulated worker has died.
        """
        if self._simulated:
            found = list(self._grid.pull_messages(sorted(self._waiting)))
            for message in found:
                check_worker_alive(message)
            return [(message.metadata.reply_to_message_id, message) for message in found]
        started = time.monotonic()
        expected = {name: self.limits(self.unanswered[name]) for name in self._waiting}
        replies = collect(self._grid, expected, self._deadline - started)
        if replies:
            # A site that is slow to deliver its reply takes no time from the others.
            self._deadline += time.monotonic() - started
        return replies

    def _read(self, message: Message, addressed: AddressedRequest[Asked]) -> Answer | Failure:
        """Read a reply and empty its message, which Flower's simulation keeps until the next."""
        if message.has_error():
            return Failure(f"the worker failed: {last_line(message.error.reason or '')}")
        try:
            return read_reply(self._kind, addressed, message, signed=not self._simulated)
        except ProtocolError as error:
            return Failure(f"its reply cannot be used: {error}")
        finally:
            message.content.clear()


def read_reply(
    kind: Kind[Asked, Answer], addressed: AddressedRequest[Asked], message: Message, signed: bool
) -> Answer:
    """Read the reply to a request.

    Args:
        kind: the kind of message.
        addressed: the request. Its key is compared, not one that the reply names.
        message: the reply.
        signed: whether the owner of its key must have signed it.

    Raises:
        ProtocolError: the reply has another form, answers another request, or is not signed.
    """
    packed = Packed.of(message.content, addressed.request.reply_limits())
    if signed:
        verify(addressed.public_key, kind.message_type, packed)
    reply = kind.reply.unpack(packed)
    reply.check_answers(addressed.request)
    return reply
