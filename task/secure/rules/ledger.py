"""Which sums a participant has signed: of each model one set of participants, and one weighting.

A second sum of the same model over other participants would differ from the first by single
updates. So would one with other weights, settings or images, because settings such as the batch
size can change the training of one participant alone. This holds over rounds and runs.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from task.errors import ProtocolError
from task.machine.files import create_whole, make_private
from task.secure.transcript import Scope, View

MOST_REPORTS = 64  # of one model: random rounding averages out over many
ANOTHER_START = "start from another model, such as that of another seed"


class Entry(NamedTuple):
    """What a participant has signed for one model.

    Attributes:
        settings: a hash of the experiment.
        own: what decides the participant's own update besides: its images and its norm bound.
        weighting: a hash of the weights; see `task.secure.transcript.View.weighting`.
        survivors: the participants in the sum, ascending.
    """

    settings: str
    own: str
    weighting: str
    survivors: tuple[int, ...]


class SumLedger(Protocol):
    """Remembers one entry for each sum, by `Scope.sum_name`, and counts reports by model.

    Attributes:
        own: see `Entry`.
    """

    own: str

    def first(self, sum_name: str, entry: Entry) -> Entry:
        """Return the entry of a sum, keeping `entry` if there is none."""

    def entry(self, sum_name: str) -> Entry | None:
        """Return the entry of a sum; None if there is none."""

    def count_report(self, sum_name: str) -> int:
        """Count one more report for a sum; return how many there are now."""


class MemoryLedger:
    """A ledger of a simulated participant, which protects nobody and needs no disk."""

    own = ""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self._reports: dict[str, int] = {}

    def first(self, sum_name: str, entry: Entry) -> Entry:
        """Return the entry of a sum, keeping `entry` if there is none."""
        return self._entries.setdefault(sum_name, entry)

    def entry(self, sum_name: str) -> Entry | None:
        """Return the entry of a sum; None if there is none."""
        return self._entries.get(sum_name)

    def count_report(self, sum_name: str) -> int:
        """Count one more report for a sum; return how many there are now."""
        self._reports[sum_name] = self._reports.get(sum_name, 0) + 1
        return self._reports[sum_name]


class DiskLedger:
    """A site's ledger. It is written through to the disk before a site answers.

    It stays when a run ends, so that a coordinator cannot repeat a sum later.

    Args:
        directory: private to the site.
        own: see `Entry`.
    """

    def __init__(self, directory: Path, own: str = "") -> None:
        self._directory, self.own = directory, own

    def first(self, sum_name: str, entry: Entry) -> Entry:
        """Return the entry of a sum, keeping `entry` if there is none.

        Raises:
            OSError: it cannot be kept.
            ProtocolError: what was kept is damaged; nothing may be signed.
        """
        make_private(self._directory)
        if create_whole(self._path(sum_name), json.dumps(entry).encode()):
            return entry
        return self._read(sum_name)

    def entry(self, sum_name: str) -> Entry | None:
        """Return the entry of a sum; None if there is none.

        Raises:
            ProtocolError: what was kept is damaged; nothing may be signed.
        """
        return self._read(sum_name) if self._path(sum_name).exists() else None

    def count_report(self, sum_name: str) -> int:
        """Count one more report for a sum; return how many there are now.

        Raises:
            OSError: it cannot be counted; nothing may be reported.
        """
        make_private(self._directory)
        with (self._directory / f"{sum_name}.reports").open("ab") as file:  # one byte for each
            file.write(b".")
            file.flush()
            os.fsync(file.fileno())
            return file.tell()

    def _path(self, sum_name: str) -> Path:
        return self._directory / f"{sum_name}.json"

    def _read(self, sum_name: str) -> Entry:
        try:
            settings, own, weighting, survivors = json.loads(self._path(sum_name).read_text())
            return Entry(str(settings), str(own), str(weighting), tuple(map(int, survivors)))
        except (ValueError, TypeError):
            raise ProtocolError(
                f"the ledger of {sum_name} is damaged, and nothing may be signed"
            ) from None


def signed_survivors(ledger: SumLedger, scope: Scope) -> tuple[int, ...]:
    """Return the participants of the sum that was signed for an attempt's model; none if none was.

    Args:
        ledger: what was signed before.
        scope: the attempt.

    Raises:
        ProtocolError: it was signed in another experiment, or with other images.
    """
    entry = ledger.entry(scope.sum_name)
    if entry is None:
        return ()
    if entry.settings != scope.settings:
        raise ProtocolError(f"this model was summed before, in another experiment; {ANOTHER_START}")
    if entry.own != ledger.own:
        raise ProtocolError(
            f"this model was summed before, with other images or max-norm; {ANOTHER_START}"
        )
    return entry.survivors


def begin_report(ledger: SumLedger, scope: Scope) -> None:
    """Count a report before its training, so that a failed one counts as well.

    Args:
        ledger: what was reported before.
        scope: the attempt.

    Raises:
        ProtocolError: the model was reported on too often.
    """
    if ledger.count_report(scope.report_name) > MOST_REPORTS:
        raise ProtocolError(
            f"this model was trained or scored {MOST_REPORTS} times, and random rounding would "
            f"average out; {ANOTHER_START}"
        )


def sign_once(ledger: SumLedger, view: View, survivors: Sequence[int]) -> None:
    """Record a set of survivors before it is signed.

    Args:
        ledger: what was signed before.
        view: what the participant was shown.
        survivors: the set.

    Raises:
        ProtocolError: another set, weighting or experiment was signed for this model.
    """
    scope = view.setup.scope
    wanted = Entry(scope.settings, ledger.own, view.weighting(survivors), tuple(sorted(survivors)))
    known = ledger.first(scope.sum_name, wanted)
    if known.survivors != wanted.survivors:
        raise ProtocolError(
            "this model was summed before, with the participants "
            f"{', '.join(map(str, known.survivors))}"
        )
    if known != wanted:
        raise ProtocolError(
            f"this model was summed before, with other settings or weights; {ANOTHER_START}"
        )
