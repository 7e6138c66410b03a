"""Fetching the sites' replies, so that none of them can cost another."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from flwr.app import Message
from flwr.serverapp import Grid

from server_app.flower.internals import bounded_pull, refused_reply
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
    with bounded_pull(record, total, max(seconds, LEAST_SECONDS)) as refused:
        found = replies_to(expected, grid.pull_messages(sorted(expected)))
        if len(refused) > sum(message.has_error() for _, message in found):
            found += left_out(grid, sorted(expected.keys() - {name for name, _ in found}), refused)
    return found


def replies_to(expected: Collection[str], found: Iterable[Message]) -> list[tuple[str, Message]]:
    """Return the replies to expected messages, each with the id of the message that it answers."""
    replies = ((message.metadata.reply_to_message_id, message) for message in found)
    return [(message_id, message) for message_id, message in replies if message_id in expected]


def left_out(
    grid: Grid, message_ids: Sequence[str], refused: list[str]
) -> Iterator[tuple[str, Message]]:
    """Yield an error message for each refused reply that Flower has left out of a pull.

    Flower does not say which ones; so each is asked for alone. A refused reply stays where it is.

    Args:
        grid: the grid of the sites.
        message_ids: the messages without a reply.
        refused: the list of `bounded_pull`.
    """
    for message_id in message_ids:
        refused.clear()
        yield from replies_to([message_id], grid.pull_messages([message_id]))
        for reason in refused[:1]:
            yield message_id, refused_reply(message_id, grid.run.run_id, reason)
