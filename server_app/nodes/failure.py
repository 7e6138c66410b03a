"""A request that has no reply which the server can use."""

from dataclasses import dataclass
from typing import TypeVar

from task.protocol.envelope import Reply
from task.protocol.errors import ProtocolError

Answer = TypeVar("Answer", bound=Reply)

ABSENT = "its SuperNode is not connected, or was refused (see events.csv)"  # of a client


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
