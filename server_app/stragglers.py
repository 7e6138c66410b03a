"""Messages that nobody answered in time."""

from collections.abc import Callable

from flwr.serverapp import Grid


class Stragglers:
    """Takes late replies off the grid, drops them, and names them.

    Args:
        grid: where they arrive.
        note: is told a site's name and what happened.
    """

    def __init__(self, grid: Grid, note: Callable[[str, str], None]) -> None:
        self._grid, self._note = grid, note
        self._awaited: dict[str, tuple[str, str]] = {}

    def expect(self, message_id: str, site: str, what: str) -> None:
        """A message whose time is up: to which site, and what it asked for."""
        self._awaited[message_id] = site, what

    def drop(self) -> None:
        """Drop what has arrived since."""
        if not self._awaited:
            return
        for reply in self._grid.pull_messages(sorted(self._awaited)):
            site, what = self._awaited.pop(reply.metadata.reply_to_message_id)
            if not reply.has_error():
                self._note(site, f"late: its {what} came after the deadline and was dropped")
