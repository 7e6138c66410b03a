"""The progress of a run: a live bar in a notebook or on a terminal, else plain lines."""

import html
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import univarfl.application  # noqa: F401

# isort: split

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from server_app.runs.records.tables import count_rounds
from server_app.tracking.console import ConsoleHandler, shown_by

LAST_LINE = "final accuracy"


class Bar(logging.Handler):
    """A handler that shows the latest line of a run beside its rounds, and keeps warnings.

    Args:
        directory: the run directory.
        rounds: the number of rounds.
    """

    def __init__(self, directory: Path, rounds: int) -> None:
        super().__init__()
        self.directory, self.rounds = directory, rounds
        self.line = ""
        self.warnings: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Show a line."""
        text = self.format(record)
        if text.startswith(("warning: ", "error: ")):
            self.warnings.append(text)
        elif not self.line.startswith(LAST_LINE):
            self.line = text
        self.show(count_rounds(self.directory))

    def show(self, done: int) -> None:
        """Show the state after `done` rounds."""
        raise NotImplementedError


class TerminalBar(Bar):
    """A bar on a terminal; warnings are printed above it."""

    def __init__(self, directory: Path, rounds: int) -> None:
        super().__init__(directory, rounds)
        columns = (BarColumn(bar_width=24), MofNCompleteColumn(), TimeRemainingColumn())
        self.progress = Progress(*columns, TextColumn("{task.description}"), console=Console())
        self.task = self.progress.add_task("", total=rounds)

    def show(self, done: int) -> None:
        for text in self.warnings:
            self.progress.console.print(escape(text), highlight=False)
        self.warnings.clear()
        self.progress.update(self.task, completed=done, description=escape(self.line))


class NotebookBar(Bar):
    """A bar in the output of a notebook's cell, with the warnings below it."""

    def __init__(self, directory: Path, rounds: int) -> None:
        from IPython.display import display  # noqa: PLC0415

        super().__init__(directory, rounds)
        self.done = 0
        self.output = display(self, display_id=True)  # type: ignore[no-untyped-call]

    def show(self, done: int) -> None:
        self.done = done
        self.output.update(self)

    def _repr_html_(self) -> str:
        lines = "".join(f"<br>{html.escape(text)}" for text in self.warnings)
        bar = f'<progress value="{self.done}" max="{self.rounds}"></progress>'
        return f"{bar} {self.done}/{self.rounds} {html.escape(self.line)}{lines}"

    def __repr__(self) -> str:
        return "\n".join([f"{self.done}/{self.rounds} {self.line}", *self.warnings])


@contextmanager
def progress_of(directory: Path, rounds: int, shown: bool) -> Iterator[None]:
    """Show the progress of a run.

    Args:
        directory: the run directory, which need not exist yet.
        rounds: the number of rounds.
        shown: whether anything is shown.
    """
    if not shown:
        with shown_by(logging.NullHandler()):
            yield
    elif in_notebook():
        with shown_by(NotebookBar(directory, rounds)):
            yield
    elif sys.stdout.isatty():
        bar = TerminalBar(directory, rounds)
        with bar.progress, shown_by(bar):
            yield
    else:
        with shown_by(ConsoleHandler(sys.stdout)):
            yield


def in_notebook() -> bool:
    """Return whether this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return shell is not None and hasattr(shell, "kernel")
