"""The status of every cell of a sweep on disk, and the runs that belong to cells."""

import csv
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock, Timeout

from server_app.runs.identity import identity_of, recorded_code
from server_app.runs.records.csv_files import rows_as_csv
from server_app.runs.records.image_versions import ImageVersions, recorded_versions, versions_of
from server_app.runs.records.record import RUN_JSON
from server_app.runs.records.run_record import RunRecord, read_record
from server_app.runs.records.tables import RecordError
from task.machine.files import write_whole
from univarfl.records.csv_tables import read_rows
from univarfl.records.status import is_held
from univarfl.sweeps.cells import Cell

SWEEPS = "sweeps"
COLUMNS = ("cell", "status", "reason", "run", "settings", "words")
OLD_COLUMNS = COLUMNS[:4]  # of sweeps before cells were identified by their settings
DONE, FAILED, REFUSED, WAITING, RUNNING = "completed", "failed", "refused", "waiting", "running"
UNMET = (FAILED, REFUSED)


class Completed(NamedTuple):
    """A completed run.

    Attributes:
        place: its directory.
        images: the versions of its images.
        models_every: every how many rounds its models were kept; None if they were not.
    """

    place: Path
    images: ImageVersions
    models_every: int | None


class ExistingRuns:
    """The runs of a directory that a sweep does not have to start: completed or unfinished ones.

    Args:
        runs: the directory.
    """

    def __init__(self, runs: Path) -> None:
        self.runs = runs
        self._closed: set[Path] = set()
        self._completed: dict[str, list[Completed]] = {}
        self._versions: dict[str, ImageVersions] = {}

    def completed(self, cell: Cell) -> Path | None:
        """Return the completed run of a cell, also if another sweep or ``univarfl train`` ran it.

        If the cell's images cannot be read, a run on any version of them is returned.
        """
        runs = self._runs_of(cell)
        same = [run.place for run in runs if not run.images.differ(self._images(cell))]
        return same[-1] if same else None

    def outdated(self, cell: Cell) -> Path | None:
        """Return a completed run of a cell on other images than there are now."""
        runs = self._runs_of(cell)
        return runs[-1].place if runs and not self.completed(cell) else None

    def unfinished(self, cell: Cell) -> Path | None:
        """Return the run of a cell that can be resumed; of several, that with the most rounds."""
        # Imported here because it imports PyTorch, and a report reads the ledger alone.
        from server_app.runs.checkpoint import DIRECTORY, checkpoints  # noqa: PLC0415

        found: list[tuple[str, Path]] = []
        for place in self.runs.glob(f"*/{DIRECTORY}"):
            run = place.parent
            try:
                record = read_record(run)
                same = identity_of(record.config, recorded_code(record)) == cell.identity
                if (
                    same
                    and keeps_models_of(cell, kept_every(record))
                    and not record.completed
                    and not is_held(run)
                ):
                    same_data = not recorded_versions(record).differ(self._images(cell))
                    found += [(last.name, run) for last in checkpoints(run)[:1] if same_data]
            except RecordError:
                continue  # `univarfl report` names it
        return max(found)[1] if found else None

    def _images(self, cell: Cell) -> ImageVersions:
        """Return the versions of a cell's images, read once for equal data settings."""
        assert cell.experiment is not None
        settings = cell.experiment.model_dump_json(include={"data", "partition", "after"})
        if settings not in self._versions:
            self._versions[settings] = versions_of(cell.experiment)
        return self._versions[settings]

    def _runs_of(self, cell: Cell) -> list[Completed]:
        """Return the completed runs of a cell that kept the models that it asks for."""
        for path in sorted(self.runs.glob(f"*/{RUN_JSON}")):
            if path.parent not in self._closed:
                self._read(path.parent)
        runs = self._completed.get(cell.identity, [])
        return [run for run in runs if keeps_models_of(cell, run.models_every)]

    def _read(self, run: Path) -> None:
        """Read a run's record; that of a running or failed run is read again next time."""
        try:
            record = read_record(run)
            if not record.completed:
                return
            if record.results.model_fields_set:
                identity = identity_of(record.config, recorded_code(record))
                found = Completed(run, recorded_versions(record), kept_every(record))
                self._completed.setdefault(identity, []).append(found)
        except RecordError:
            pass  # `univarfl report` names it
        self._closed.add(run)


def kept_every(record: RunRecord) -> int | None:
    """Return every how many rounds a run kept its models; None if it kept none."""
    every: int | None = record.config.get("watch", {}).get("models_every")
    return every


def keeps_models_of(cell: Cell, models_every: int | None) -> bool:
    """Return whether a run that keeps its models so often is enough for a cell."""
    assert cell.experiment is not None
    return cell.experiment.watch.models_every in (None, models_every)


class Claims:
    """Locks on the cells that sweeps are running, so that several sweeps can share a directory.

    The system releases a lock when its process ends, however it ends.
    """

    def __init__(self, runs: Path) -> None:
        self._place = runs / SWEEPS / "claims"
        self._place.mkdir(parents=True, exist_ok=True)
        self._locks: dict[str, FileLock] = {}

    def take(self, cell: Cell) -> bool:
        """Lock a cell; return False if another sweep has locked it."""
        lock = FileLock(self._place / f"{cell.identity}.lock")
        try:
            lock.acquire(blocking=False)
        except Timeout:
            return False
        self._locks[cell.identity] = lock
        return True

    def leave(self, cell: Cell) -> None:
        """Unlock a cell."""
        self._locks.pop(cell.identity).release()


def unmet_cells(place: Path) -> list[str]:
    """Return one line for each cell that was not completed and has no record, by its last sweep.

    A later sweep replaces what an earlier one wrote about cells of the same settings or, for cells
    with invalid settings, of the same words. In ledgers without settings the label stands for them.
    A ledger that cannot be read has one line, too.
    """
    latest: dict[str, tuple[str, list[str]]] = {}  # the name of the ledger, and its row
    damaged = []
    for path in sorted(place.glob("*.csv")):
        name = f"{place.name}/{path.name}"
        try:
            rows = list(read_rows(path))[1:]
        except (OSError, csv.Error) as error:
            damaged.append(f"{name}: cannot be read: {error}")
            continue
        for row in rows:
            if len(row) == len(OLD_COLUMNS):
                latest[row[0]] = name, row
            elif len(row) == len(COLUMNS):
                label, *_, settings, words = row
                latest.pop(label, None)
                latest.pop(words, None)
                latest[settings] = name, row
    unmet = [
        f"cell {label}: {status}" + (f": {reason}" if reason else "") + f" ({name})"
        for name, (label, status, reason, run, *_) in latest.values()
        if status != DONE and not (run and (place.parent / run / RUN_JSON).exists())
    ]
    return [*damaged, *unmet]


class SweepTable:
    """``sweeps/NAME.csv``: status, reason and run of every cell of one sweep.

    Args:
        path: the file.
        cells: the cells of the sweep.
    """

    def __init__(self, path: Path, cells: Sequence[Cell]) -> None:
        self.path = path
        self._rows = {cell.identity: row_of(cell, WAITING) for cell in cells}
        self._write()

    def note(self, cell: Cell, status: str, reason: str = "", run: Path | None = None) -> None:
        """Write a cell's status."""
        self._rows[cell.identity] = row_of(cell, status, reason, run)
        self._write()

    def count(self, *statuses: str) -> int:
        """Return how many cells have one of these statuses."""
        return sum(row[1] in statuses for row in self._rows.values())

    def unmet(self) -> Iterator[tuple[str, str]]:
        """Yield label and reason of the cells that failed or were refused."""
        for label, status, reason, *_ in self._rows.values():
            if status in UNMET:
                yield label, reason

    def _write(self) -> None:
        write_whole(self.path, rows_as_csv([COLUMNS, *self._rows.values()]))


def row_of(cell: Cell, status: str, reason: str = "", run: Path | None = None) -> tuple[str, ...]:
    """Return a cell's row of the ledger."""
    words = shlex.join(cell.words)
    return cell.label, status, reason, run.name if run else "", cell.settings, words
