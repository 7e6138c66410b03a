"""What became of each cell, kept on disk beside the runs."""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

from filelock import FileLock, Timeout

from server_app.checkpoint import DIRECTORY as CHECKPOINTS
from server_app.checkpoint import checkpoints
from server_app.identity import identity_of
from server_app.run_directory import is_held
from server_app.run_record import read_record
from server_app.sweep.cells import Cell

SWEEPS = "sweeps"
COLUMNS = ("cell", "status", "reason", "run")
DONE, FAILED, REFUSED, WAITING, RUNNING = "completed", "failed", "refused", "waiting", "running"
UNMET = (FAILED, REFUSED)


class Finished:
    """The completed runs of a directory, by their cell's identity."""

    def __init__(self, runs: Path) -> None:
        self.runs = runs
        self._closed: set[Path] = set()
        self._found: dict[str, Path] = {}

    def find(self, cell: Cell) -> Path | None:
        """The run of a cell that has been completed, by whichever sweep or command."""
        for path in self.runs.glob("*/run.json"):
            if path.parent not in self._closed:
                self._read(path.parent)
        return self._found.get(cell.identity)

    def _read(self, run: Path) -> None:
        """Look at a run; one that goes on, or that can be gone on with, is looked at again."""
        try:
            record = read_record(run)
            if record["status"] in (RUNNING, FAILED):
                return
            if record["status"] == DONE and record["results"]:
                self._found[identity_of(record["config"], record["code"])] = run
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            pass  # `univarfl report` names it
        self._closed.add(run)


def unfinished_run(runs: Path, cell: Cell) -> Path | None:
    """The run of a cell that was ended, left a checkpoint, and that nobody is at work on.

    Of several it is the one that got furthest.
    """
    found: list[tuple[str, Path]] = []
    for place in runs.glob(f"*/{CHECKPOINTS}"):
        run = place.parent
        try:
            record = read_record(run)
            mine = identity_of(record["config"], record["code"]) == cell.identity
            if mine and record["status"] != DONE and not is_held(run):
                found += [(last.name, run) for last in checkpoints(run)[:1]]
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue  # `univarfl report` names it
    return max(found)[1] if found else None


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
    """The cells that sweeps of a directory have no record of, a line for each, by the latest."""
    latest: dict[str, list[str]] = {}
    for path in sorted(place.glob("*.csv")):
        with path.open(newline="", errors="replace") as file:
            rows = [row for row in csv.reader(file) if len(row) == len(COLUMNS)]
        latest |= {row[0]: row for row in rows[1:]}
    return [
        f"cell {label}: {status}" + (f": {reason}" if reason else "")
        for label, status, reason, run in latest.values()
        if status != DONE and not (run and (place.parent / run / "run.json").exists())
    ]


class Ledger:
    """``sweeps/NAME.csv``: every cell of one sweep, what became of it, why, and its run."""

    def __init__(self, path: Path, cells: Sequence[Cell]) -> None:
        self.path = path
        self._rows = {cell.identity: [cell.label, WAITING, "", ""] for cell in cells}
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
