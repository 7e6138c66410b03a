"""The scheduler of a sweep: runs its cells in parallel, each in its own process."""

import secrets
from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime
from multiprocessing.connection import wait

import joblib
import torch

from server_app.runs.directory import plan_run_directory, runs_directory
from task.errors import RunError
from task.machine.memory import available_bytes, processes_that_fit
from univarfl.sweeps.cells import Cell
from univarfl.sweeps.job import Job
from univarfl.sweeps.ledger import (
    DONE,
    FAILED,
    REFUSED,
    RUNNING,
    SWEEPS,
    Claims,
    ExistingRuns,
    SweepTable,
)  # fmt: skip
from univarfl.sweeps.overview import Overview, reasons_once

LOOK_SECONDS = 0.5


class Sweep:
    """The runs of the cells that have no completed run yet.

    Args:
        cells: the cells; at least one is valid.
        jobs: how many run at a time; None for as many as cores and memory allow.
    """

    def __init__(self, cells: Sequence[Cell], jobs: int | None = None) -> None:
        self.cells = cells
        experiments = [cell.experiment for cell in cells if cell.experiment]
        self.runs = runs_directory(experiments[0])
        plan_run_directory(experiments[0])  # fails if the directory cannot be written
        flower = any(experiment.engine == "flower" for experiment in experiments)
        workers = max(experiment.federation.workers or 1 for experiment in experiments)
        self.jobs = jobs or (1 if flower else max(1, jobs_at_a_time() // workers))
        name = f"{datetime.now(tz=UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(4)}"
        (self.runs / SWEEPS).mkdir(exist_ok=True)
        self.existing, self.claims = ExistingRuns(self.runs), Claims(self.runs)
        self.ledger = SweepTable(self.runs / SWEEPS / f"{name}.csv", cells)
        self.log = self.runs / SWEEPS / f"{name}.log"
        self.overview = Overview(cells)
        self._waiting: deque[Cell] = deque()
        self._running: list[Job] = []

    def run(self) -> None:
        """Run every cell.

        Raises:
            RunError: some cells failed or cannot be run; all others are completed.
        """
        with self.overview.live():
            self._sort()
            try:
                while self._waiting or self._running:
                    self._start()
                    wait([job.process.sentinel for job in self._running], LOOK_SECONDS)
                    self._settle()
                    self.overview.show(self._state(), self._running)
            finally:
                self._end()
        unmet = list(self.ledger.unmet())
        if unmet:
            lines = "".join(f"\n  {line}" for line in reasons_once(unmet))
            raise RunError(f"{len(unmet)} of {len(self.cells)} cells have no result{lines}")

    def _sort(self) -> None:
        """Decide which cells to run; write down those that are completed or cannot be run."""
        refusals = []
        for cell in self.cells:
            if self._is_done(cell):
                continue
            if outdated := self.existing.outdated(cell):
                self.overview.say(
                    f"again      {cell.label}: other images than {outdated.name} used"
                )
            if reason := cell.reason():
                self.ledger.note(cell, REFUSED, reason)
                self.overview.ended(cell, False)
                refusals.append((cell.label, reason))
            else:
                self._waiting.append(cell)
        for line in reasons_once(refusals):
            self.overview.say(f"refused    {line}")
        done, refused = self.ledger.count(DONE), self.ledger.count(REFUSED)
        self.overview.say(
            f"{len(self.cells)} cells: {done} completed before, {len(self._waiting)} to run, "
            f"{min(self.jobs, max(1, len(self._waiting)))} at a time, {refused} refused; "
            f"records in {self.runs}"
        )

    def _start(self) -> None:
        """Start cells while jobs are free; a cell that another sweep runs moves to the end."""
        for _ in range(len(self._waiting)):
            if len(self._running) == self.jobs:
                break
            cell = self._waiting.popleft()
            if not self.claims.take(cell):
                self._waiting.append(cell)
            elif self._is_done(cell):  # another sweep has completed it
                self.claims.leave(cell)
            else:
                self._launch(cell)

    def _is_done(self, cell: Cell) -> bool:
        """Return whether a cell has a completed run; if so, write it down."""
        run = self.existing.completed(cell)
        if run:
            self.ledger.note(cell, DONE, run=run)
            self.overview.ended(cell, False)
        return run is not None

    def _launch(self, cell: Cell) -> None:
        assert cell.experiment is not None
        ended = self.existing.unfinished(cell)
        directory = ended or plan_run_directory(cell.experiment)
        self._running.append(Job(cell, directory, self.log, ended is not None))
        self.ledger.note(cell, RUNNING, run=directory)
        self.overview.started(cell)

    def _settle(self) -> None:
        """Write down the runs that have ended."""
        for job in [job for job in self._running if not job.process.is_alive()]:
            self._running.remove(job)
            reason = job.reason()
            self.ledger.note(job.cell, FAILED if reason else DONE, reason, job.directory)
            self.claims.leave(job.cell)
            self.overview.ended(job.cell, not reason)
            what = "failed    " if reason else "completed "
            count = f"{self.ledger.count(DONE, FAILED, REFUSED)}/{len(self.cells)}"
            self.overview.say(f"{count} {what} {job.cell.label}: {reason or job.accuracy()}")

    def _end(self) -> None:
        """Stop all runs; their records say that they were interrupted."""
        for job in self._running:
            job.ask_to_end()
        for job in self._running:
            job.end()
        self._settle()

    def _state(self) -> str:
        done, failed = self.ledger.count(DONE), self.ledger.count(FAILED, REFUSED)
        counts = f"{done} of {len(self.cells)} completed, {len(self._running)} running"
        return counts + (f", {failed} failed" if failed else "")


def jobs_at_a_time() -> int:
    """Return the default number of jobs: one per core if memory allows; one if there is a GPU."""
    if torch.cuda.is_available():
        return 1
    return processes_that_fit(int(joblib.cpu_count()), available_bytes())
