"""Which survivors a participant has signed in each round: one set, for one request."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from task.machine.files import create_whole, make_private
from task.protocol.errors import ProtocolError
from task.secure.transcript import Scope, View


class Entry(NamedTuple):
    """What a participant has signed in a round.

    Attributes:
        request: a hash of the round's request; see `task.secure.transcript.View`.
        survivors: the set, ascending.
    """

    request: str
    survivors: tuple[int, ...]


class Ledger(Protocol):
    """Remembers one entry for each sum, such as ``train-3`` for the updates of round 3."""

    def first(self, sum_of: str, entry: Entry) -> Entry:
        """Return the entry of a sum, keeping `entry` if there is none."""

    def signed(self, sum_of: str) -> tuple[int, ...]:
        """Return the survivors of a sum, ascending; none if none were signed."""


class MemoryLedger:
    """A ledger of a simulated participant, which protects nobody and needs no disk."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}

    def first(self, sum_of: str, entry: Entry) -> Entry:
        """Return the entry of a sum, keeping `entry` if there is none."""
        return self._entries.setdefault(sum_of, entry)

    def signed(self, sum_of: str) -> tuple[int, ...]:
        """Return the survivors of a sum, ascending; none if none were signed."""
        return self._entries[sum_of].survivors if sum_of in self._entries else ()


class DiskLedger:
    """A site's ledger of one run. It is written through to the disk before a site answers.

    It stays when the run ends, so that a coordinator cannot repeat a round later.

    Args:
        directory: of this run, private to the site.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def first(self, sum_of: str, entry: Entry) -> Entry:
        """Return the entry of a sum, keeping `entry` if there is none.

        Raises:
            OSError: it cannot be kept.
            ProtocolError: what was kept is damaged; nothing may be signed.
        """
        make_private(self._directory)
        if create_whole(self._path(sum_of), json.dumps(entry).encode()):
            return entry
        return self._read(sum_of)

    def signed(self, sum_of: str) -> tuple[int, ...]:
        """Return the survivors of a sum, ascending; none if none were signed.

        Raises:
            ProtocolError: what was kept is damaged; nothing may be signed.
        """
        return self._read(sum_of).survivors if self._path(sum_of).exists() else ()

    def _path(self, sum_of: str) -> Path:
        return self._directory / f"{sum_of}.json"

    def _read(self, sum_of: str) -> Entry:
        try:
            request, survivors = json.loads(self._path(sum_of).read_text())
            return Entry(str(request), tuple(map(int, survivors)))
        except (ValueError, TypeError):
            raise ProtocolError(
                f"the ledger of {sum_of} is damaged, and nothing may be signed"
            ) from None


def name_of_sum(scope: Scope) -> str:
    """Return under which name the sum of a round is kept."""
    return f"{scope.purpose}-{scope.round}"


def sign_once(ledger: Ledger, view: View, survivors: Sequence[int]) -> None:
    """Record a set of survivors before it is signed.

    Args:
        ledger: what was signed before.
        view: what the participant was shown.
        survivors: the set.

    Raises:
        ProtocolError: another set or request was signed in this round.
    """
    scope = view.setup.scope
    server_round = scope.round
    wanted = Entry(view.request.hex(), tuple(sorted(survivors)))
    known = ledger.first(name_of_sum(scope), wanted)
    if known.request != wanted.request:
        raise ProtocolError(
            f"round {server_round} was answered before, with another model, weights or settings"
        )
    if known.survivors != wanted.survivors:
        raise ProtocolError(
            f"round {server_round} was answered before, with the participants "
            f"{', '.join(map(str, known.survivors))}"
        )
