"""Sending messages over a Flower grid and waiting for the replies."""

import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid

from task import wire
from task.fingerprint import fingerprint

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
    arrays: Mapping[str, ArrayRecord] = NO_ARRAYS,
    data: str = "",
) -> Message:
    """A message to one worker; `task.wire` says what is in it."""
    config: dict[str, str | int | list[int]] = {
        "run": run.id,
        "experiment": run.experiment,
        "fingerprint": fingerprint(),
        "round": server_round,
        "clients": list(clients),
        "accepted": list(accepted),
        "data": data,
    }
    content = RecordDict({wire.REQUEST: ConfigRecord(dict(config)), **arrays})
    return Message(content, dst_node_id=node_id, message_type=kind, group_id=str(server_round))


class Exchange:
    """Messages on their way. Between sending and `replies` the server is free to work."""

    def __init__(self, grid: Grid, messages: Sequence[Message], timeout: float) -> None:
        self._grid = grid
        self._deadline = time.monotonic() + timeout
        pushed = set(grid.push_messages(messages))
        self._ids = [message.metadata.message_id for message in messages]
        self._waiting = {message_id for message_id in self._ids if message_id in pushed}

    def replies(self) -> list[Message | None]:
        """The reply to each message, in their order; None where none came in time."""
        arrived: dict[str, Message] = {}
        pause = SHORTEST_PAUSE
        while self._waiting:
            pulled = list(self._grid.pull_messages(sorted(self._waiting)))
            if time.monotonic() >= self._deadline:
                break
            arrived |= {reply.metadata.reply_to_message_id: reply for reply in pulled}
            self._waiting -= arrived.keys()
            if not pulled:
                time.sleep(pause)
                pause = min(pause * 1.2, LONGEST_PAUSE)
        return [arrived.get(message_id) for message_id in self._ids]


def essence(reason: str) -> str:
    """What a person needs of an error reply: Ray's holds a traceback, and ends with the message."""
    lines = [line for line in reason.splitlines() if line.strip()]
    if not lines:
        return "no reason given"
    return lines[-1].removeprefix("Exception ClientAppException occurred. Message: ").rstrip("'>")
