"""The CSV tables of a run's record: their columns, and the reader."""

import csv
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from server_app.runs.records.metrics import CHECKED, MAY_DIVERGE, NAME, SHARES
from task.errors import system_reason
from task.machine.regular import LARGEST_TABLE, read_end, read_start

ROUNDS, CLASSES, CLIENTS, EVENTS = "rounds.csv", "classes.csv", "clients.csv", "events.csv"
PARQUET = "clients.parquet"  # replaces a clients.csv of more than `MOST_ROWS_AS_CSV` rows
MOST_ROWS_AS_CSV = 10_000
MODELS = "models"  # the directory of the models of single rounds
ANALYSIS = "analysis"  # the directory of the tables of ``univarfl analyse``
ROUND_COLUMNS = ("round", "split", "metric", "value")
CLASS_COLUMNS = ("round", "class", "examples", "recall")
CLIENT_TYPES = {  # of the columns that every clients.csv has; all but the round are a participant's
    "round": int, "client": int, "site": str, "status": str, "reason": str, "examples": int,
    "seconds": float, "device": str,
}  # fmt: skip
CLIENT_COLUMNS = tuple(CLIENT_TYPES)
TIMED_COLUMNS = ("staleness", "simulated_seconds")  # with clock=virtual or strategy=fedbuff
CLIENT_TEXT = tuple(name for name, kind in CLIENT_TYPES.items() if kind is str)
CLIENT_COUNTS = tuple(name for name, kind in CLIENT_TYPES.items() if kind is int)
CLIENT_LOSSES = ("ce", "l_he", "l_v")  # in every clients.csv; a method's other terms follow
CLIENT_NUMBERS = {*CLIENT_COLUMNS, *TIMED_COLUMNS, *CLIENT_LOSSES} - {*CLIENT_TEXT}
EVENT_COLUMNS = ("time", "round", "site", "event")

LEAST_IMAGES = 20  # a client with fewer held-out images is not counted in ``client_scores``
SPLITS = ("train", "validation", "test")
ROUNDING = 1e-9
SHOWN = 40  # characters of a wrong number
LONGEST_HEADER = 1 << 16  # bytes of the first line of a long table
MOST_DIGITS = 18  # of a count, which then fits into 64 bits

Series = Mapping[tuple[str, str], Mapping[int, float]]


class Line(NamedTuple):
    """A line of a table; its text is made only for an error, since there are many lines."""

    file: str
    number: int

    def __str__(self) -> str:
        return f"{self.file}, line {self.number}"


class RecordError(ValueError):
    """A file of a record is missing or wrong; the text names the file and the error."""


def count_rounds(directory: Path) -> int:
    """Return how many rounds a run has completed; each has one row of its seconds."""
    try:
        return read_end(directory / ROUNDS, LARGEST_TABLE)[0].count(",train,seconds,")
    except OSError:
        return 0


def read_series(path: Path) -> Series:
    """Return ``rounds.csv`` as values by round, by split and metric.

    Metrics that this version does not know may have any value; those that cannot be used are left
    out.

    Raises:
        RecordError: the file is missing, or a line is wrong.
    """
    series: dict[tuple[str, str], dict[int, float]] = defaultdict(dict)
    for line, (number, split, metric, text) in read_lines(path, ROUND_COLUMNS):
        at = parse_count(number, line)
        if split not in SPLITS:
            raise RecordError(f"{line}: unknown split {split!r}")
        if at in series.get((split, metric), ()):
            raise RecordError(f"{line}: {split} {metric} of round {at} appears twice")
        try:
            value = parse_number(text, metric, line)
        except RecordError:
            if metric in CHECKED:
                raise
            continue
        if NAME.fullmatch(metric) if split != "train" else math.isfinite(value):
            series[split, metric][at] = value
    return dict(series)


def read_lines(
    path: Path, columns: tuple[str, ...], ending: bool = False
) -> Iterator[tuple[Line, list[str]]]:
    """Yield some columns of a table of numbers, each row with its place for error messages.

    Args:
        path: the file.
        columns: the names of the columns; a file of another version may have further ones.
        ending: whether the last `LARGEST_TABLE` bytes are enough. Lines are then counted from
            there, if the file is larger.

    Raises:
        RecordError: the file is missing, too large, lacks a column, or a row is cut short.
    """
    try:
        text, cut = read_end(path, LARGEST_TABLE)
        first = read_start(path, LONGEST_HEADER).decode(errors="replace") if cut else text
    except OSError as error:
        raise RecordError(f"{path.name}: {system_reason(error)}") from None
    if cut and not ending:
        raise RecordError(f"{path.name} has more than {LARGEST_TABLE >> 20} MiB")
    named = cells_of((first.splitlines() or [""])[0], f"{path.name}, line 1")
    places = places_of(columns, named, path.name)
    plain, width = tuple(named) == columns, len(named)
    for number, content in enumerate(text.splitlines()[1:], 2):
        if content:
            line = Line(path.name, number)
            # Numbers are not quoted, but a column of another version may be.
            row = content.split(",") if plain else cells_of(content, line)
            if len(row) != width:
                raise RecordError(f"{line} is cut short")
            yield line, row if plain else [row[place] for place in places]
    if not text.endswith("\n"):
        raise RecordError(f"{path.name} is cut short in its last line")


def cells_of(text: str, place: Line | str) -> list[str]:
    """Return the cells of one line.

    Raises:
        RecordError: it is not CSV.
    """
    try:
        return next(csv.reader([text], strict=True), [])
    except csv.Error as error:
        raise RecordError(f"{place} is not CSV: {error}") from None


def places_of(columns: Sequence[str], named: Sequence[str], file: str) -> list[int]:
    """Return where columns are in a table whose first line has these names.

    Raises:
        RecordError: one is missing.
    """
    if tuple(named[: len(columns)]) == tuple(columns):  # also if a name appears twice
        return list(range(len(columns)))
    if lacking := [name for name in columns if name not in named]:
        columns_lacking = ", ".join(lacking)
        raise RecordError(f"{file} is cut short, or does not have the columns {columns_lacking}")
    return [named.index(name) for name in columns]


def parse_count(text: str, line: Line | str) -> int:
    """Return a whole number, 0 or more.

    Raises:
        RecordError: the text is something else.
    """
    if not (text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS):
        raise RecordError(f"{line}: {text[:SHOWN]!r} is not a whole number")
    return int(text)


def parse_number(text: str, metric: str, line: Line | str) -> float:
    """Return a metric's value: finite, and from 0 to 1 if the metric is a share.

    That of a metric which this version does not know is any number.

    Raises:
        RecordError: the text is something else.
    """
    value = parse_float(text, line)
    if metric not in CHECKED:
        return value
    if metric in SHARES and 1 < value <= 1 + ROUNDING:  # as older versions wrote it
        return 1.0
    wrong = not 0 <= value <= 1 if metric in SHARES else metric == "seconds" and value < 0
    if wrong or (not math.isfinite(value) and metric not in MAY_DIVERGE):
        raise RecordError(f"{line}: {metric} cannot be {text[:SHOWN]}")
    return value


def parse_float(text: str, line: Line | str) -> float:
    """Return a number, which need not be finite.

    Raises:
        RecordError: the text is something else.
    """
    try:
        return float(text)
    except ValueError:
        raise RecordError(f"{line}: {text[:SHOWN]!r} is not a number") from None
