"""Replies that arrive after their round's deadline."""

from collections.abc import Callable, Sequence
from typing import Any

from flwr.serverapp import Grid

from server_app.nodes.assignment import WorkUnit
from server_app.nodes.messages import Exchange


class LateReplies:
    """Takes the late replies of sites off the grid, drops them, and names each one.

    Args:
        grid: where they arrive.
        note: records an event; takes a site's name and what happened.
    """

    def __init__(self, grid: Grid, note: Callable[[str, str], None]) -> None:
        self._grid, self._note = grid, note
        self._awaited: dict[str, tuple[str, str]] = {}

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
                self._awaited[message_id] = site, what

    def drop_arrived(self) -> None:
        """Drop the late replies that have arrived since."""
        if not self._awaited:
            return
        for reply in self._grid.pull_messages(sorted(self._awaited)):
            site, what = self._awaited.pop(reply.metadata.reply_to_message_id)
            if not reply.has_error():
                self._name(site, what)

    def _name(self, site: str, what: str) -> None:
        self._note(site, f"late: its {what} came after the deadline and was dropped")
