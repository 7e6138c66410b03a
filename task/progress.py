"""The progress of a run: a file to which its processes append, and which the bars read.

A worker replies only after all of its clients; this file has each client as soon as it is trained.
Only the process that shows bars names the file, to the processes that it starts. Other runs, and
real sites, have none.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

PROGRESS = "UNIVARFL_PROGRESS"  # the environment variable with the file's path


class ClientTrained(NamedTuple):
    """A client was trained, or failed.

    Attributes:
        server_round: the round.
        images: the number of its training images; 0 if it failed, or tells no number.
        seconds: the duration of its training; 0 without a number of images.
    """

    server_round: int
    images: int = 0
    seconds: float = 0.0


class RoundEnded(NamedTuple):
    """A round has ended.

    Attributes:
        server_round: the round.
    """

    server_round: int


Event = ClientTrained | RoundEnded


def emit(event: Event) -> None:
    """Append an event to the file, if there is one; a file that cannot be written is ignored."""
    path = os.environ.get(PROGRESS)
    if path:
        line = " ".join(map(str, event)) + "\n"
        with suppress(OSError), Path(path).open("a") as file:
            file.write(line)  # at once, so that lines of several processes stay whole


@contextmanager
def progress_file() -> Iterator[None]:
    """Name a file to this process and those that it starts, unless one is named already.

    If none can be made, none is named.
    """
    with ExitStack() as stack:
        if PROGRESS not in os.environ:
            with suppress(OSError):
                place = tempfile.TemporaryDirectory(prefix="univarfl-", ignore_cleanup_errors=True)
                os.environ[PROGRESS] = str(Path(stack.enter_context(place), "progress"))
                stack.callback(os.environ.pop, PROGRESS, None)
        yield


class Events:
    """The events in this process's file, read while it grows."""

    def __init__(self) -> None:
        self._position = 0

    def new(self) -> list[Event]:
        """Return the events since the last call."""
        try:
            with Path(os.environ[PROGRESS]).open("rb") as file:
                file.seek(self._position)
                text = file.read()
        except (KeyError, OSError):
            return []
        complete = text[: text.rfind(b"\n") + 1]
        self._position += len(complete)
        return [_event(line.split()) for line in complete.decode().splitlines()]


def _event(words: list[str]) -> Event:
    server_round, *more = words
    if not more:
        return RoundEnded(int(server_round))
    images, seconds = more
    return ClientTrained(int(server_round), int(images), float(seconds))
