"""Bars for a run on a terminal: the clients of the round, and the rounds of the run."""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from server_app.config.experiment import Experiment
from server_app.tracking.console import Shown, shown_by
from server_app.tracking.streams import on_terminal

DAY = 24 * 3600.0
ROUND_LINE = re.compile(r"round +(\d+)/\d+ ")  # as `round_line` begins
# What a client in this process logs (`client_app.work_unit`): its round comes first or last.
TRAINED, CLIENT_FAILED = "round %d: trained on %d images in %.1f s", "client %d failed in round %d"
TRAINED_PRIVATELY = "round %d: trained in %.1f s"

clients = logging.getLogger("univarfl.client")


class RunProgress(Shown):
    """A handler that prints the lines of a run above two bars, and moves the bars.

    Args:
        experiment: what is run.
        console: where to draw.
    """

    def __init__(self, experiment: Experiment, console: Console) -> None:
        super().__init__()
        self.rounds, self.participants = experiment.rounds, experiment.participants
        self.epochs = experiment.local_epochs
        self.bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[state]}"),
            TimeRemainingColumn(),
            console=console,
            speed_estimate_period=DAY,
            transient=True,
        )
        self._run = self.bars.add_task(
            "run", total=self.rounds * self.participants, state=f"round 0/{self.rounds}"
        )
        self._clients = self.bars.add_task(
            "round", total=self.participants, state="", visible=False
        )
        self._round = self._done = self._rounds_done = 0
        self._images = self._seconds = 0.0

    def emit(self, record: logging.LogRecord) -> None:
        """Print a line; if it ends a round, move the run's bar."""
        text = self.format(record)
        try:
            self.bars.console.print(escape(text), highlight=False, soft_wrap=True)
        except OSError:
            self.handleError(record)
        if found := ROUND_LINE.match(text):
            self._move_run(int(found[1]), 0)

    def client_trained(self, server_round: int, images: int, seconds: float) -> None:
        """Count a client of a round.

        Args:
            server_round: the round.
            images: the number of its training images; 0 if it failed, or tells no number.
            seconds: the duration of its training.
        """
        if server_round != self._round:
            self._round, self._done, self._images, self._seconds = server_round, 0, 0.0, 0.0
            self.bars.reset(self._clients, visible=True, state="")
        self._done = min(self._done + 1, self.participants)  # an attempt can repeat a client
        self._images += images * self.epochs
        self._seconds += seconds
        rate = f", {self._images / self._seconds:.0f} images/s" if self._seconds else ""
        state = f"clients {self._done}/{self.participants}{rate}"
        self.bars.update(self._clients, completed=self._done, state=state)
        self._move_run(server_round - 1, self._done)

    def _move_run(self, rounds: int, clients_done: int) -> None:
        done = max(int(self.bars.tasks[0].completed), rounds * self.participants + clients_done)
        self._rounds_done = max(self._rounds_done, rounds)  # clients may be read after their round
        state = f"round {self._rounds_done}/{self.rounds}"
        if not self.bars.tasks[0].completed and rounds > 1:  # resumed: the time left starts here
            self.bars.reset(self._run, completed=done, state=state)
        self.bars.update(self._run, completed=done, state=state)


class ClientCounter(logging.Handler):
    """A handler of the clients' log that counts them.

    With ``engine=flower``, `log_clients` logs what the workers of this machine have trained.
    Workers on other machines of a Ray cluster, and real sites, move the bars once a round.

    Args:
        progress: is moved.
    """

    def __init__(self, progress: RunProgress) -> None:
        super().__init__()
        self._progress = progress

    def emit(self, record: logging.LogRecord) -> None:
        """Count a client that was trained, or failed."""
        values = record.args
        if not isinstance(values, tuple):
            return
        if record.msg == TRAINED:
            self._progress.client_trained(*values)  # type: ignore[arg-type]
        elif record.msg == TRAINED_PRIVATELY:
            self._progress.client_trained(int(str(values[0])), 0, 0.0)
        elif record.msg == CLIENT_FAILED:
            self._progress.client_trained(int(str(values[1])), 0, 0.0)


@contextmanager
def progress_on_terminal(experiment: Experiment) -> Iterator[None]:
    """Show bars for a run if standard output is a terminal; plain lines elsewhere."""
    if not on_terminal():
        yield
        return
    with progress_on(experiment, Console()):
        yield


@contextmanager
def progress_on(experiment: Experiment, console: Console) -> Iterator[RunProgress]:
    """Show bars for a run on a console."""
    progress = RunProgress(experiment, console)
    counter = ClientCounter(progress)
    clients.addHandler(counter)
    try:
        with progress.bars, shown_by(progress):
            yield progress
    finally:
        clients.removeHandler(counter)
