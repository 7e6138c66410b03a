"""The progress of a run: a live bar in a notebook or on a terminal, else plain lines."""

import html
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import univarfl.application  # noqa: F401

# isort: split

from server_app.config.experiment import Experiment
from server_app.runs.records.tables import count_rounds
from server_app.tracking.console import ConsoleHandler, shown_by
from univarfl.cli.progress import progress_on_terminal
from univarfl.terminal.streams import on_terminal

LAST_LINE = "final accuracy"


class NotebookBar(logging.Handler):
    """A bar in the output of a notebook's cell: the latest line beside the rounds, warnings below.

    Args:
        directory: the run directory.
        rounds: the number of rounds.
    """

    def __init__(self, directory: Path, rounds: int) -> None:
        from IPython.display import display  # noqa: PLC0415

        super().__init__()
        self.directory, self.rounds, self.done = directory, rounds, 0
        self.line = ""
        self.warnings: list[str] = []
        self.output = display(self, display_id=True)  # type: ignore[no-untyped-call]

    def emit(self, record: logging.LogRecord) -> None:
        """Show a line."""
        text = self.format(record)
        if text.startswith(("warning: ", "error: ")):
            self.warnings.append(text)
        elif not self.line.startswith(LAST_LINE):
            self.line = text
        self.done = count_rounds(self.directory)
        self.output.update(self)

    def _repr_html_(self) -> str:
        lines = "".join(f"<br>{html.escape(text)}" for text in self.warnings)
        bar = f'<progress value="{self.done}" max="{self.rounds}"></progress>'
        return f"{bar} {self.done}/{self.rounds} {html.escape(self.line)}{lines}"

    def __repr__(self) -> str:
        return "\n".join([f"{self.done}/{self.rounds} {self.line}", *self.warnings])


@contextmanager
def progress_of(experiment: Experiment, directory: Path, shown: bool) -> Iterator[None]:
    """Show the progress of a run.

    Args:
        experiment: what is run.
        directory: the run directory, which need not exist yet.
        shown: whether anything is shown.
    """
    if not shown:
        with shown_by(logging.NullHandler()):
            yield
    elif in_notebook():
        with shown_by(NotebookBar(directory, experiment.rounds)):
            yield
    elif on_terminal():
        with progress_on_terminal(experiment):
            yield
    else:
        with shown_by(ConsoleHandler(sys.stdout)):
            yield


def in_notebook() -> bool:
    """Return whether this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return shell is not None and hasattr(shell, "kernel")
