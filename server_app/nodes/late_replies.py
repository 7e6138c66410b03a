"""Replies that arrive after their round's deadline."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from flwr.serverapp import Grid

from server_app.nodes.assignment import WorkUnit
from server_app.nodes.collection import collect
from server_app.nodes.messages import Exchange
from task.protocol.limits import ReplyLimits

SECONDS = 1.0  # for a site to deliver a late reply that it has announced


class Awaited(NamedTuple):
    """A reply that a site still owes.

    Attributes:
        site: the site.
        what: what it was asked for.
        limits: the size of the largest reply.
    """

    site: str
    what: str
    limits: ReplyLimits


class LateReplies:
    """Takes the late replies of sites off the grid, drops them, and names each one.

    Args:
        grid: where they arrive.
        note: records an event; takes a site's name and what happened.
    """

    def __init__(self, grid: Grid, note: Callable[[str, str], None]) -> None:
        self._grid, self._note = grid, note
        self._awaited: dict[str, Awaited] = {}

    def expect(self, exchange: Exchange[Any, Any], units: Sequence[WorkUnit], what: str) -> None:
        """Name the sites whose reply came too late, and remember those that still owe one.

        Args:
            exchange: an exchange whose time is up.
            units: the work unit of each of its requests.
            what: what the requests asked for, such as "model of round 3".
        """
        for message_id, place in exchange.unanswered.items():
            site = units[place].node.site
            if not site:
                continue
            if place in exchange.too_late:
                self._name(site, what)
            else:
                self._awaited[message_id] = Awaited(site, what, exchange.limits(place))

    def drop_arrived(self) -> None:
        """Drop the late replies that have arrived since."""
        expected = {message_id: each.limits for message_id, each in self._awaited.items()}
        for message_id, reply in sorted(collect(self._grid, expected, SECONDS)):
            site, what, _ = self._awaited.pop(message_id)
            if not reply.has_error():
                self._name(site, what)

    def _name(self, site: str, what: str) -> None:
        self._note(site, f"late: its {what} came after the deadline and was dropped")
