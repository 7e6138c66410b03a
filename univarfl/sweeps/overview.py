"""The progress of a sweep on the terminal."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from univarfl.sweeps.cells import Cell
from univarfl.sweeps.job import Job

DAY = 24 * 3600.0


class Overview:
    """Progress bars with counts and remaining time; without a terminal, printed lines only."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        self._console = Console(highlight=False, soft_wrap=True)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[state]}"),
            TimeRemainingColumn(),
            console=self._console,
            speed_estimate_period=DAY,
            disable=not self._console.is_terminal,
        )
        self._total = sum(map(work, cells))
        self._whole = self._progress.add_task("all runs", total=self._total, state="")
        self._settled = 0.0
        self._lines: dict[str, TaskID] = {}

    def live(self) -> Progress:
        """Return a context that shows the bars."""
        return self._progress

    def say(self, text: str) -> None:
        """Print a line above the bars."""
        self._console.print(escape(text))

    def started(self, cell: Cell) -> None:
        """Add a bar for a run."""
        assert cell.experiment is not None
        line = self._progress.add_task(
            f"  {escape(cell.label)}", total=cell.experiment.rounds, state=""
        )
        self._lines[cell.identity] = line

    def ended(self, cell: Cell, worked: bool) -> None:
        """Remove a run's bar; if it was not run here, it does not count for the remaining time."""
        if worked:
            self._settled += work(cell)
        else:
            self._total -= work(cell)
        if cell.identity in self._lines:
            self._progress.remove_task(self._lines.pop(cell.identity))

    def show(self, state: str, jobs: Sequence[Job]) -> None:
        """Update all bars."""
        under_way = 0.0
        for job in jobs:
            experiment, rounds = job.cell.experiment, job.rounds()
            assert experiment is not None
            self._progress.update(
                self._lines[job.cell.identity],
                completed=rounds, state=f"round {rounds}/{experiment.rounds}",
            )  # fmt: skip
            under_way += work(job.cell) * rounds / experiment.rounds
        done = self._settled + under_way
        self._progress.update(self._whole, total=self._total, completed=done, state=state)


def reasons_once(reasons: Iterable[tuple[str, str]]) -> list[str]:
    """Return a line for each reason, such as missing data, with the cells that have it.

    Args:
        reasons: label and reason of each cell.
    """
    labels: dict[str, list[str]] = defaultdict(list)
    for label, reason in reasons:
        labels[reason].append(label)
    return [
        f"{found[0]}{f' and {len(found) - 1} more' if found[1:] else ''}: {reason}"
        for reason, found in labels.items()
    ]


def work(cell: Cell) -> float:
    """Return the work of a cell, in epochs of one client; 0 if it is invalid."""
    run = cell.experiment
    return run.rounds * run.participants * run.local_epochs if run else 0
