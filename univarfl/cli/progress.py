"""Bars for a run on a terminal: the clients of the round, and the rounds of the run."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from server_app.config.experiment import Experiment
from server_app.tracking.console import shown_by
from task.progress import ClientTrained, Events, RoundEnded, progress_file
from univarfl.terminal.steps import LinesAbove
from univarfl.terminal.streams import on_terminal

DAY = 24 * 3600.0
LOOK_SECONDS = 0.1


class RunProgress(Progress):
    """Two bars that follow the progress of a run, however many processes it has.

    Workers on other machines of a Ray cluster move them once a round.

    Args:
        experiment: what is run.
        console: where to draw.
    """

    def __init__(self, experiment: Experiment, console: Console) -> None:
        self._events = Events()
        self.rounds, self.participants = experiment.rounds, experiment.participants
        self.epochs = experiment.local_epochs
        super().__init__(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[state]}"),
            TimeRemainingColumn(),
            console=console,
            speed_estimate_period=DAY,
            transient=True,
        )
        self._run = self.add_task(
            "run", total=self.rounds * self.participants, state=f"round 0/{self.rounds}"
        )
        self._clients = self.add_task("round", total=self.participants, state="", visible=False)
        self._round = self._done = self._rounds_done = 0
        self._images = self._seconds = 0.0

    def look(self) -> None:
        """Move the bars by what has happened since the last look."""
        for event in self._events.new():
            if isinstance(event, RoundEnded):
                self._move_run(event.server_round, 0)
            else:
                self._count(event)

    def _count(self, client: ClientTrained) -> None:
        """Count a client of a round."""
        if client.server_round != self._round:
            self._round, self._done = client.server_round, 0
            self._images, self._seconds = 0.0, 0.0
            self.reset(self._clients, visible=True, state="")
        self._done = min(self._done + 1, self.participants)  # an attempt can repeat a client
        self._images += client.images * self.epochs
        self._seconds += client.seconds
        rate = f", {self._images / self._seconds:.0f} images/s" if self._seconds else ""
        state = f"clients {self._done}/{self.participants}{rate}"
        self.update(self._clients, completed=self._done, state=state)
        self._move_run(client.server_round - 1, self._done)

    def _move_run(self, rounds: int, clients_done: int) -> None:
        done = max(int(self.tasks[0].completed), rounds * self.participants + clients_done)
        self._rounds_done = max(self._rounds_done, rounds)
        state = f"round {self._rounds_done}/{self.rounds}"
        if not self.tasks[0].completed and rounds > 1:  # resumed: the time left starts here
            self.reset(self._run, completed=done, state=state)
        self.update(self._run, completed=done, state=state)


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
    """Show bars for a run on a console, and print its lines above them.

    If processes of the run start earlier, `task.progress.progress_file` is entered before them.
    """
    over = threading.Event()

    def look_now_and_then() -> None:
        while not over.wait(LOOK_SECONDS):
            bars.look()

    named, bars = progress_file(), RunProgress(experiment, console)
    with named, bars, shown_by(LinesAbove(console)):
        thread = threading.Thread(target=look_now_and_then, daemon=True)
        thread.start()
        try:
            yield bars
        finally:
            over.set()
            thread.join()
            bars.look()
