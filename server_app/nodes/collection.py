"""Fetching one site's reply, so that it can cost no other site's."""

from flwr.app import Message
from flwr.serverapp import Grid

from server_app.flower.internals import LOST_CONNECTION, bounded_pull
from task.plain_text import one_line
from task.protocol.errors import ProtocolError
from task.protocol.limits import ReplyLimits

LEAST_SECONDS = 1.0  # for a reply that is there already when the time is up


def collect(grid: Grid, message_id: str, limits: ReplyLimits, seconds: float) -> Message | None:
    """Return the reply to a message, or None if there is none so far.

    Flower claims, fetches and builds the replies to several messages together. If one of them
    cannot be built, it raises an error, and all of them are lost. So each is fetched by itself.

    Args:
        grid: the grid of the sites.
        message_id: the message.
        limits: the size of the largest reply.
        seconds: how long the site may take to deliver a reply that it has announced.

    Raises:
        ProtocolError: Flower cannot build the reply.
    """
    arrays = sum(limits.arrays.values())
    try:
        with bounded_pull(limits.header, arrays, max(seconds, LEAST_SECONDS)):
            found = list(grid.pull_messages([message_id]))
    except LOST_CONNECTION:
        raise
    except Exception as error:
        reason = one_line(f"{type(error).__name__}: {error}", 200)
        raise ProtocolError(f"Flower cannot read it ({reason})") from None
    for message in found:
        if message.metadata.reply_to_message_id == message_id:
            if not (message.has_error() or message.has_content()):
                raise ProtocolError("it is empty")
            return message
    return None
