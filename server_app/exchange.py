"""Sending messages over a Flower grid and waiting for the replies."""

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from types import MappingProxyType
from typing import NamedTuple

from flwr.app import ArrayRecord, ConfigRecord, Error, Message, RecordDict
from flwr.common.constant import ErrorCode
from flwr.serverapp import Grid

from server_app.failures import WorkerLostError
from task import wire
from task.fingerprint import fingerprint

RAY_ERROR = re.compile(r"<class 'ray\.exceptions\.(\w+)'>")
LIVES_ON = 2.0  # in deadlines: a site that comes back later than that finds no stale work
SHORTEST_PAUSE = 0.01
LONGEST_PAUSE = 0.1
NO_ARRAYS: Mapping[str, ArrayRecord] = MappingProxyType({})


class Run(NamedTuple):
    """What every message of a run says of it.

    Attributes:
        id: by which clients keep its memories apart; no two runs share one.
        experiment: the `LocalConfig` as JSON.
    """

    id: str
    experiment: str


def request(
    kind: str,
    node_id: int,
    run: Run,
    server_round: int,
    clients: Sequence[int] = (),
    accepted: Sequence[int] = (),
    shares: Sequence[float] = (),
    arrays: Mapping[str, ArrayRecord] = NO_ARRAYS,
    seconds: float = 0.0,
    most_norm: float = 0.0,
) -> Message:
    """A message to one worker, who has so many seconds, or any time; `task.wire` says the rest."""
    config: dict[str, str | int | float | list[int] | list[float]] = {
        "run": run.id,
        "experiment": run.experiment,
        "fingerprint": fingerprint(),
        "round": server_round,
        "clients": list(clients),
        "accepted": list(accepted),
        "shares": list(shares),
        "seconds": seconds,
        "most_norm": most_norm,
    }
    content = RecordDict({wire.REQUEST: ConfigRecord(dict(config)), **arrays})
    return Message(
        content, node_id, kind, ttl=LIVES_ON * seconds or None, group_id=str(server_round)
    )


class Exchange:
    """Messages on their way. Until it asks for their replies the server is free to work.

    Args:
        grid: the grid.
        messages: for its SuperNodes.
        timeout: how many seconds their replies are waited for.
        simulated: whether the SuperNodes are Ray's; a site could only claim so.

    Attributes:
        unanswered: by message id, the places of those that nobody has answered yet.
    """

    def __init__(
        self, grid: Grid, messages: Sequence[Message], timeout: float, simulated: bool = False
    ) -> None:
        self._grid, self._messages, self._simulated = grid, list(messages), simulated
        self._deadline = time.monotonic() + timeout
        pushed = set(grid.push_messages(messages))
        self.unanswered = {
            message.metadata.message_id: place for place, message in enumerate(messages)
        }
        self._waiting = self.unanswered.keys() & pushed

    def arrivals(self) -> Iterator[tuple[int, Message | None]]:
        """Each message's place and the reply to it, as they arrive; at last None for the others.

        Raises:
            WorkerLostError: a simulated worker has died.
        """
        pause = SHORTEST_PAUSE
        while self._waiting:
            pulled = list(self._grid.pull_messages(sorted(self._waiting)))
            arrived = time.monotonic()
            if arrived >= self._deadline:
                break
            for reply in pulled:
                message_id = reply.metadata.reply_to_message_id
                if message_id in self._waiting:
                    if self._simulated:
                        check_alive(reply)
                    self._waiting.discard(message_id)
                    place = self.unanswered.pop(message_id)
                    yield place, belonging(reply, self._messages[place])
            self._deadline += time.monotonic() - arrived  # the server's own work, not the clients'
            if not pulled:
                time.sleep(pause)
                pause = min(pause * 1.2, LONGEST_PAUSE)
        for place in self.unanswered.values():
            yield place, None

    def replies(self) -> list[Message | None]:
        """The reply to each message, in their order; None where none came in time."""
        return [reply for _, reply in sorted(self.arrivals(), key=itemgetter(0))]


def check_alive(reply: Message) -> None:
    """Notice that Ray has lost a worker: every message to it would fail from now on.

    Raises:
        WorkerLostError: it has.
    """
    reason = reply.error.reason or "" if reply.has_error() else ""
    if found := RAY_ERROR.match(reason):
        raise WorkerLostError(f"a worker's process has ended ({found[1]})")


def belonging(reply: Message, asked: Message) -> Message:
    """The reply, or an error reply if it answers something else than it was asked."""
    if reply.has_error():
        return reply
    about = reply.content.config_records.get(wire.ABOUT, ConfigRecord())
    expected = asked.content.config_records[wire.REQUEST]
    for name in ("run", "round", "fingerprint"):
        if about.get(name) != expected[name]:
            said = f"its reply is for another {name}: {about.get(name)!r}, not {expected[name]!r}"
            return Message(Error(ErrorCode.UNKNOWN, said), reply_to=asked)
    return reply


def essence(reason: str) -> str:
    """What a person needs of an error reply: Ray's holds a traceback, and ends with the message."""
    lines = [line for line in reason.splitlines() if line.strip()]
    if not lines:
        return "no reason given"
    return lines[-1].removeprefix("Exception ClientAppException occurred. Message: ").rstrip("'>")
