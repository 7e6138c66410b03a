"""A bar for a command that takes several long steps."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, track

from server_app.tracking.console import Shown, shown_by
from univarfl.terminal.streams import on_terminal

Item = TypeVar("Item")
Begin = Callable[[str], None]
FEW = 50  # short steps; they take about a second


class LinesAbove(Shown):
    """A handler that prints lines above a bar.

    Args:
        console: where the bar is.
    """

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        """Print a line."""
        try:
            self._console.print(escape(self.format(record)), highlight=False, soft_wrap=True)
        except OSError:
            self.handleError(record)


@contextmanager
def steps_on_terminal(total: int) -> Iterator[Begin]:
    """Show a bar of steps if standard output is a terminal; nothing elsewhere.

    Args:
        total: the number of steps.

    Yields:
        The function to call with a step's name when it begins.
    """
    if not on_terminal():
        yield lambda _: None
        return
    with steps_on(Console(), total) as begin:
        yield begin


@contextmanager
def steps_on(console: Console, total: int) -> Iterator[Begin]:
    """Show a bar of steps on a console; see `steps_on_terminal`."""
    bar = Progress(
        BarColumn(bar_width=24),
        TextColumn("{task.completed}/{task.total}"),
        TimeElapsedColumn(),
        TextColumn("{task.description}", markup=False),
        console=console,
        transient=True,
    )
    task = bar.add_task("", total=total, completed=-1)

    def begin(step: str) -> None:
        bar.update(task, advance=1, description=step)

    with bar, shown_by(LinesAbove(console)):
        yield begin


def bar_on_terminal(items: Sequence[Item], description: str) -> Iterable[Item]:
    """Return the items with a bar of short steps if there are many and this is a terminal.

    Args:
        items: what is worked on, one after another.
        description: what the bar is called.
    """
    if len(items) < FEW or not on_terminal():
        return items
    return track(items, description, console=Console(), transient=True)
