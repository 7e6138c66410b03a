"""What became of each cell, kept on disk beside the runs."""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

from filelock import FileLock, Timeout

from server_app.recorder import read_record
from server_app.sweep.cells import Cell, identity_of

SWEEPS = "sweeps"
COLUMNS = ("cell", "status", "reason", "run")
DONE, FAILED, REFUSED, WAITING, RUNNING = "completed", "failed", "refused", "waiting", "running"
UNMET = (FAILED, REFUSED)


class Finished:
    """The completed runs of a directory, by their cell's identity."""

    def __init__(self, runs: Path) -> None:
        self.runs = runs
        self._seen: dict[Path, str] = {}

    def find(self, cell: Cell) -> Path | None:
        """The run of a cell that has been completed, by whichever sweep or command."""
        for path in self.runs.glob("*/run.json"):
            if path.parent not in self._seen:
                self._read(path.parent)
        return next((run for run, found in self._seen.items() if found == cell.identity), None)

    def _read(self, run: Path) -> None:
        try:
            record = read_record(run)
            if record["status"] != "running":
                done = record["status"] == DONE
                identity = identity_of(record["config"], record["fingerprint"])
                self._seen[run] = identity if done else ""
        except (OSError, ValueError, KeyError, TypeError):
            self._seen[run] = ""  # half a record is no result; `univarfl report` names it


class Claims:
    """Which cells are being run by whom: sweeps of one directory share the work.

    The system lets go of a claim when its process ends, however it ends.
    """

    def __init__(self, runs: Path) -> None:
        self._place = runs / SWEEPS / "claims"
        self._place.mkdir(parents=True, exist_ok=True)
        self._locks: dict[str, FileLock] = {}

    def take(self, cell: Cell) -> bool:
        """Claim a cell; False if another sweep has it."""
        lock = FileLock(self._place / f"{cell.identity}.lock")
        try:
            lock.acquire(blocking=False)
        except Timeout:
            return False
        self._locks[cell.identity] = lock
        return True

    def leave(self, cell: Cell) -> None:
        """Give a cell up."""
        self._locks.pop(cell.identity).release()


def unmet_cells(place: Path) -> list[str]:
    """The cells that the latest sweep of a directory has no record of, a line for each."""
    ledgers = sorted(place.glob("*.csv"))
    if not ledgers:
        return []
    with ledgers[-1].open(newline="") as file:
        rows = [row for row in csv.reader(file) if len(row) == len(COLUMNS)]
    return [
        f"cell {label}: {status}: {reason}"
        for label, status, reason, run in rows
        if status in UNMET and not (run and (place.parent / run / "run.json").exists())
    ]


class Ledger:
    """``sweeps/NAME.csv``: every cell of one sweep, what became of it, why, and its run."""

    def __init__(self, path: Path, cells: Sequence[Cell]) -> None:
        self.path = path
        self._rows = {
            cell.identity: [cell.label, WAITING if cell.experiment else REFUSED, cell.refusal, ""]
            for cell in cells
        }
        self._write()

    def note(self, cell: Cell, status: str, reason: str = "", run: Path | None = None) -> None:
        """Write down what became of a cell."""
        self._rows[cell.identity] = [cell.label, status, reason, run.name if run else ""]
        self._write()

    def count(self, *statuses: str) -> int:
        """How many cells have one of these statuses."""
        return sum(row[1] in statuses for row in self._rows.values())

    def unmet(self) -> Iterator[tuple[str, str]]:
        """The cells that failed or were refused, and why."""
        for label, status, reason, _ in self._rows.values():
            if status in UNMET:
                yield label, reason

    def _write(self) -> None:
        temporary = self.path.with_suffix(".tmp")
        with temporary.open("w", newline="") as file:
            csv.writer(file).writerows([COLUMNS, *self._rows.values()])
        temporary.replace(self.path)
