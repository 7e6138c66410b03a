"""Standard output and standard error: text for a person, also if a stream is closed or full."""

import io
import os
import select
import sys
from contextlib import suppress
from typing import BinaryIO, TextIO

from task.plain_text import escaped

ESCAPED = "backslashreplace"  # what an encoding lacks is printed as an escape, such as \xe9


class Output(io.TextIOWrapper):
    """A standard stream whose loss does not end the command, such as on a full disk.

    What follows is discarded. A closed pipe on standard output raises `BrokenPipeError`.

    Attributes:
        lost: the error of the first text that could not be written; None if there was none.
    """

    lost: OSError | None = None

    def write(self, text: str) -> int:
        """Write text, or discard it."""
        try:
            return super().write(text)
        except OSError as error:
            self._lose(error)
            return len(text)

    def flush(self) -> None:
        """Write what is buffered, or discard it."""
        try:
            super().flush()
        except OSError as error:
            self._lose(error)

    def _lose(self, error: OSError) -> None:
        if isinstance(error, BrokenPipeError) and self is sys.stdout:
            raise error
        self.lost = self.lost or error
        discard(self)
        with suppress(OSError):
            super().flush()


def prepare_streams() -> None:
    """Make standard output and standard error usable, whatever this process was started with.

    A descriptor that is closed, as by cron or ``>&-``, becomes the null device: otherwise the next
    file that is opened would get its number, and with it what is printed.
    """
    opened = set()
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            opened.add(os.open(os.devnull, os.O_RDWR))
    for descriptor, name in ((1, "stdout"), (2, "stderr")):
        stream = getattr(sys, name)
        if stream is None:
            place = descriptor if descriptor in opened else os.devnull
            output = output_to(open(place, "wb", closefd=place != descriptor))  # noqa: SIM115
        elif type(stream) is io.TextIOWrapper and stream is getattr(sys, f"__{name}__"):
            encoding, by_line, at_once = (
                stream.encoding, stream.line_buffering, stream.write_through
            )  # fmt: skip
            output = output_to(stream.detach(), encoding, by_line, at_once)
        else:  # a test's, or a notebook's
            continue
        setattr(sys, name, output)
        setattr(sys, f"__{name}__", output)


def output_to(
    file: BinaryIO, encoding: str = "utf-8", by_line: bool = False, at_once: bool = False
) -> Output:
    """Return a stream that writes to a binary file.

    Args:
        file: the file.
        encoding: of the text.
        by_line: whether each line is written when it ends, as on a terminal.
        at_once: whether all text is written at once, as with ``PYTHONUNBUFFERED``.
    """
    return Output(
        file, encoding=encoding, errors=ESCAPED, line_buffering=by_line, write_through=at_once
    )


def discard(stream: TextIO) -> None:
    """Send everything that a stream writes from here on to the null device."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)


def lost_output() -> OSError | None:
    """Return why text for standard output was discarded; None if all was written."""
    return getattr(sys.stdout, "lost", None)


def on_terminal() -> bool:
    """Return whether standard output is a terminal."""
    return sys.stdout is not None and sys.stdout.isatty()


def print_plain(text: str, stream: TextIO | None = None) -> None:
    """Print lines, each with a mark in place of what is not printable.

    So a record that somebody else has written cannot control the terminal.

    Args:
        text: the lines.
        stream: where to print; None for standard output.
    """
    print("\n".join(map(escaped, text.split("\n"))), file=stream)


def output_closed() -> bool:
    """Return whether standard output is a pipe whose reader has closed it, as ``head`` does."""
    poll = select.poll()
    poll.register(sys.stdout, 0)  # errors alone
    return bool(poll.poll(0))
