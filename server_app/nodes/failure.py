"""A request that has no reply which the server can use, and what a reply of Ray says of it."""

import re
from dataclasses import dataclass
from typing import TypeVar

from flwr.app import Message

from server_app.rounds.errors import WorkerLostError
from task.errors import ProtocolError
from task.plain_text import one_line
from task.protocol.envelope import Reply

Answer = TypeVar("Answer", bound=Reply)

ABSENT = "its SuperNode is not connected, or was refused (see events.csv)"  # of a client
RAY_ERROR = re.compile(r"<class 'ray\.exceptions\.(\w+)'>")
CLIENT_APP_ERROR = "Exception ClientAppException occurred. Message: "  # Flower's, around Ray's
SHORT_OF_MEMORY = (
    "this machine has too little memory, so Ray ended a worker; use fewer workers "
    "(federation.workers), a smaller batch_size or a smaller model"
)
LAST_CHARACTERS = 20_000  # of an error reply's reason, which may be of any length


@dataclass(frozen=True)
class Failure:
    """A request without a usable reply.

    Attributes:
        reason: why, for a person.
    """

    reason: str


def usable(reply: Answer | Failure) -> Answer:
    """Return the reply.

    Raises:
        ProtocolError: there is none, for the reason that the failure names.
    """
    if isinstance(reply, Failure):
        raise ProtocolError(reply.reason)
    return reply


def check_worker_alive(reply: Message) -> None:
    """Notice that Ray has lost a worker: every further message to it would fail.

    Raises:
        WorkerLostError: it has.
    """
    reason = reply.error.reason or "" if reply.has_error() else ""
    if lost := reason_of_ray(reason):
        raise WorkerLostError(lost)


def reason_of_ray(reason: str) -> str:
    """Return Ray's reason for ending a worker, in one line; empty if the reply is not Ray's.

    Ray's own text has a thousand characters of counters and identifiers.
    """
    found = RAY_ERROR.match(reason)
    if not found:
        return ""
    if found[1] == "OutOfMemoryError":
        return SHORT_OF_MEMORY
    return f"a worker's process has ended ({found[1]})"


def last_line(reason: str) -> str:
    """Return the message of an error reply; Ray puts it below a traceback."""
    if lost := reason_of_ray(reason):
        return lost
    lines = [line for line in reason[-LAST_CHARACTERS:].splitlines() if line.strip()]
    if not lines:
        return "no reason given"
    return one_line(lines[-1].removeprefix(CLIENT_APP_ERROR).rstrip("'>"))
