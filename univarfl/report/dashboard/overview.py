"""The runs of a directory as the dashboard lists them; only what has changed is read again."""

import hashlib
import json
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from server_app.runs.records.record import RUN_JSON
from server_app.runs.records.tables import ROUNDS
from univarfl.records.listing import ListedRun, read_listed, table_of

PAUSE_SECONDS = 1.0  # between two looks at the directory, however many pages ask
MOST_RUNS = 10_000
OPEN = ("running", "killed")  # these depend on the lock too

Stamp = tuple[int, ...]


@dataclass(frozen=True)
class Answer:
    """The content of an answer and its tag, which changes with the content."""

    content: bytes
    tag: str


def answer(value: object) -> Answer:
    """Return a value as JSON; a number that is not finite is an error."""
    content = json.dumps(value, allow_nan=False, separators=(",", ":")).encode()
    return Answer(content, f'"{hashlib.sha256(content).hexdigest()[:32]}"')


class Overview:
    """The runs of a directory.

    Args:
        directory: the directory of the runs, or one run.
    """

    def __init__(self, directory: Path) -> None:
        self.one = directory.name if (directory / RUN_JSON).is_file() else None
        self.root = directory.parent if self.one else directory
        self._lock = threading.Lock()
        self._looked = -PAUSE_SECONDS
        self._known: dict[str, tuple[Stamp, ListedRun]] = {}
        self._runs: list[ListedRun] = []
        self._answer: Answer | None = None

    def listed(self) -> Answer:
        """Return the table of the runs, oldest first."""
        with self._lock:
            self._look()
            if self._answer is None:
                (_, status, *keys, accuracy), rows = table_of(self._runs)
                runs = [{"name": row[0], "cells": [row[1], row[-1], *row[2:-1]]} for row in rows]
                place = str(self.root / self.one if self.one else self.root)
                self._answer = answer(
                    {
                        "directory": place,
                        "columns": [status, accuracy, *keys],
                        "runs": runs,
                        "most": MOST_RUNS,
                    }
                )
            return self._answer

    def directory_of(self, name: str) -> Path | None:
        """Return the directory of a listed run; None if there is no run of this name."""
        with self._lock:
            self._look()
            return self.root / name if name in self._known else None

    def _look(self) -> None:
        """Read the runs whose files have changed since the last look."""
        if time.monotonic() - self._looked < PAUSE_SECONDS:
            return
        known = {}
        for name, stamp in self._stamps():
            before = self._known.get(name)
            if before is None or before[0] != stamp or before[1].status.startswith(OPEN):
                before = stamp, read_listed(self.root / name)
            known[name] = before
        runs = sorted((run for _, run in known.values()), key=lambda run: (run.started, run.name))
        if runs != self._runs:
            self._answer = None
        self._known, self._runs = known, runs
        self._looked = time.monotonic()

    def _stamps(self) -> Iterator[tuple[str, Stamp]]:
        """Yield the name of each run, and what changes when its record changes."""
        try:
            entries = list(os.scandir(self.root))
        except OSError:  # it was deleted or moved while the page is open
            return
        names = sorted(entry.name for entry in entries if self._is_inside(entry))
        for name in names[-MOST_RUNS:]:
            stamps = [stamp_of(self.root / name / file) for file in (RUN_JSON, ROUNDS)]
            if stamps[0] and self.one in (None, name):
                yield name, (*stamps[0], *stamps[1])

    def _is_inside(self, entry: os.DirEntry[str]) -> bool:
        """Return whether an entry is a directory, and no link to a place outside."""
        try:
            place = Path(entry.path)
            linked = entry.is_symlink()
            inside = not linked or place.resolve().is_relative_to(self.root.resolve())
            return inside and entry.is_dir()
        except (OSError, RuntimeError):  # RuntimeError: links in a circle
            return False


def stamp_of(path: Path) -> Stamp:
    """Return what changes when a file changes; empty if it is missing."""
    try:
        facts = path.lstat()
    except OSError:
        return ()
    return facts.st_mtime_ns, facts.st_size, facts.st_ino
