"""The log of a run under Flower: the lines for the console, while it grows and afterwards."""

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from server_app.runs.records.run_record import read_record

POLL_SECONDS = 0.2
EXCEPTION = re.compile(r"^[\w.]*(Error|Exception): .*", re.MULTILINE)
LOG_LINE = re.compile(r"^\d{4}-\d\d-\d\d \S+ (?P<level>[A-Z]+) univarfl (?P<message>.*)")


def log_length(directory: Path) -> int:
    """Return the size of a resumed run's log in bytes; 0 for a new run."""
    log = directory / "run.log"
    return log.stat().st_size if log.exists() else 0


def follow(directory: Path, alive: Callable[[], bool], position: int) -> Iterator[str]:
    """Yield the lines of a run's log for the console until the run ends.

    Args:
        directory: the run directory.
        alive: whether a process still works on the run.
        position: the number of bytes of the log to skip, as a resumed run wrote them before.
    """
    log = directory / "run.log"
    running = True
    while running:
        running = alive() and unfinished(directory)
        if log.exists():
            with log.open("rb") as file:
                file.seek(position)
                text = file.read()
            complete = text[: text.rfind(b"\n") + 1]
            position += len(complete)
            lines = complete.decode(errors="replace").splitlines()
            yield from filter(None, map(readable, lines))
        if running:
            time.sleep(POLL_SECONDS)


def readable(line: str) -> str:
    """Return a line of ``run.log`` without its time stamp; empty if it is not for the console."""
    found = LOG_LINE.match(line)
    if found is None:
        return ""
    return (
        found["message"]
        if found["level"] == "INFO"
        else f"{found['level'].lower()}: {found['message']}"
    )


def unfinished(directory: Path) -> bool:
    """Whether the record has no result yet."""
    if not (directory / "run.json").exists():
        return True
    return read_record(directory).status == "running"


def first_exception(log: Path) -> str:
    """Return the first exception in a log, which caused the later ones."""
    text = log.read_text(errors="replace")
    found = EXCEPTION.search(text)
    return found[0] if found else "its log names no exception"
