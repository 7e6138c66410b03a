"""Fetching the sites' replies, so that none of them can cost another."""

from collections.abc import Mapping

from flwr.app import Message
from flwr.serverapp import Grid

from server_app.flower.internals import bounded_pull
from task.protocol.limits import ReplyLimits
from task.protocol.packed import PIECE_BYTES

LEAST_SECONDS = 1.0  # for a reply that is there already when the time is up


def collect(
    grid: Grid, expected: Mapping[str, ReplyLimits], seconds: float
) -> list[tuple[str, Message]]:
    """Return the replies that are there, each with the id of the message that it answers.

    One request asks for all of them. A reply that cannot be used becomes an error message.

    Args:
        grid: the grid of the sites.
        expected: the size of the largest reply, by the id of the message that it answers.
        seconds: how long a site may take to deliver a reply that it has announced.
    """
    if not expected:
        return []
    record = max(PIECE_BYTES, *(limits.header for limits in expected.values()))
    total = max(limits.total for limits in expected.values())
    with bounded_pull(record, total, max(seconds, LEAST_SECONDS)):
        found = list(grid.pull_messages(sorted(expected)))
    replies = [(message.metadata.reply_to_message_id, message) for message in found]
    return [(message_id, message) for message_id, message in replies if message_id in expected]
