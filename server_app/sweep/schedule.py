"""A sweep: its cells run side by side, each in a process of its own, until none is left."""

import secrets
from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime
from multiprocessing.connection import wait

import joblib
import psutil
import torch

from server_app.run_directory import plan_run_directory, runs_directory
from server_app.sweep.cells import Cell
from server_app.sweep.job import Job
from server_app.sweep.ledger import (
    DONE,
    FAILED,
    REFUSED,
    RUNNING,
    SWEEPS,
    Claims,
    Finished,
    Ledger,
    unfinished_run,
)  # fmt: skip
from server_app.sweep.overview import Overview
from task.errors import RunError

LOOK_SECONDS = 0.5
JOB_BYTES = 2e9


class Sweep:
    """Runs the cells that no completed run answers yet.

    Args:
        cells: at least one of them can be run.
        jobs: how many to run at a time; None for as many as the machine allows.
    """

    def __init__(self, cells: Sequence[Cell], jobs: int | None = None) -> None:
        self.cells = cells
        experiments = [cell.experiment for cell in cells if cell.experiment]
        self.runs = runs_directory(experiments[0])
        plan_run_directory(experiments[0])  # refuses a place that cannot be written
        flower = any(experiment.engine == "flower" for experiment in experiments)
        self.jobs = jobs or (1 if flower else jobs_at_a_time())
        name = f"{datetime.now(tz=UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(4)}"
        (self.runs / SWEEPS).mkdir(exist_ok=True)
        self.finished, self.claims = Finished(self.runs), Claims(self.runs)
        self.ledger = Ledger(self.runs / SWEEPS / f"{name}.csv", cells)
        self.log = self.runs / SWEEPS / f"{name}.log"
        self.overview = Overview(cells)
        self._waiting: deque[Cell] = deque()
        self._running: list[Job] = []

    def run(self) -> None:
        """Run until every cell has ended.

        Raises:
            RunError: cells failed, or could not be run at all; the others are done.
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
            lines = "".join(f"\n  {label}: {reason}" for label, reason in unmet)
            raise RunError(f"{len(unmet)} of {len(self.cells)} cells have no result{lines}")

    def _sort(self) -> None:
        """What has to be run, and what has been or cannot be."""
        for cell in self.cells:
            if self._is_done(cell):
                continue
            if reason := cell.reason():
                self.ledger.note(cell, REFUSED, reason)
                self.overview.ended(cell, False)
                self.overview.say(f"refused    {cell.label}: {reason}")
            else:
                self._waiting.append(cell)
        done, refused = self.ledger.count(DONE), self.ledger.count(REFUSED)
        self.overview.say(
            f"{len(self.cells)} cells: {done} done before, {len(self._waiting)} to run, "
            f"{min(self.jobs, max(1, len(self._waiting)))} at a time, {refused} refused; "
            f"records in {self.runs}"
        )

    def _start(self) -> None:
        """Fill the free places; what another sweep is running goes to the end of the line."""
        for _ in range(len(self._waiting)):
            if len(self._running) == self.jobs:
                break
            cell = self._waiting.popleft()
            if not self.claims.take(cell):
                self._waiting.append(cell)
            elif self._is_done(cell):  # another sweep has run it meanwhile
                self.claims.leave(cell)
            else:
                self._launch(cell)

    def _is_done(self, cell: Cell) -> bool:
        """Whether a completed run answers a cell; if so, that is written down."""
        run = self.finished.find(cell)
        if run:
            self.ledger.note(cell, DONE, run=run)
            self.overview.ended(cell, False)
        return run is not None

    def _launch(self, cell: Cell) -> None:
        assert cell.experiment is not None
        ended = unfinished_run(self.runs, cell)
        directory = ended or plan_run_directory(cell.experiment)
        self._running.append(Job(cell, directory, self.log, resume=ended is not None))
        self.ledger.note(cell, RUNNING, run=directory)
        self.overview.started(cell)

    def _settle(self) -> None:
        """Write down what has ended."""
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
        """Stop what is running; its records say that it was interrupted."""
        for job in self._running:
            job.ask_to_end()
        for job in self._running:
            job.end()
        self._settle()

    def _state(self) -> str:
        done, failed = self.ledger.count(DONE), self.ledger.count(FAILED, REFUSED)
        counts = f"{done} of {len(self.cells)} done, {len(self._running)} running"
        return counts + (f", {failed} failed" if failed else "")


def jobs_at_a_time() -> int:
    """One run a core as far as memory goes; on a GPU one run, which has it for itself."""
    if torch.cuda.is_available():
        return 1
    by_memory = int(psutil.virtual_memory().available / JOB_BYTES)
    return max(1, min(int(joblib.cpu_count()), by_memory))
