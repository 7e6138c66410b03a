"""The CSV tables of a run's record: their columns, and the reader."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from server_app.runs.records.metrics import MAY_DIVERGE, METRICS, NAME, SHARES
from task.errors import system_reason
from task.machine.regular import LARGEST_TABLE, read_end

ROUNDS, CLASSES, CLIENTS, EVENTS = "rounds.csv", "classes.csv", "clients.csv", "events.csv"
PARQUET = "clients.parquet"  # replaces a clients.csv of more than `MOST_ROWS_AS_CSV` rows
MOST_ROWS_AS_CSV = 10_000
MODELS = "models"  # the directory of the models of single rounds
ANALYSIS = "analysis"  # the directory of the tables of ``univarfl analyse``
ROUND_COLUMNS = ("round", "split", "metric", "value")
CLASS_COLUMNS = ("round", "class", "examples", "recall")
CLIENT_COLUMNS = (
    "round", "client", "site", "status", "reason", "examples", "seconds", "device",
)  # fmt: skip
TIMED_COLUMNS = ("staleness", "simulated_seconds")  # with clock=virtual or strategy=fedbuff
CLIENT_TEXT = ("site", "status", "reason", "device")
CLIENT_COUNTS = ("round", "client", "examples")  # whole numbers; the other columns are numbers
CLIENT_LOSSES = ("ce", "l_he", "l_v")  # in every clients.csv; a method's other terms follow
EVENT_COLUMNS = ("time", "round", "site", "event")

LEAST_IMAGES = 20  # a client with fewer held-out images is not counted in ``client_scores``
SPLITS = ("train", "validation", "test")
ROUNDING = 1e-9
SHOWN = 40  # characters of a wrong number
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

    Raises:
        RecordError: the file is missing, or a line is wrong.
    """
    series: dict[tuple[str, str], dict[int, float]] = defaultdict(dict)
    for line, (number, split, metric, text) in read_lines(path, ROUND_COLUMNS):
        at = parse_count(number, line)
        if split not in SPLITS:
            raise RecordError(f"{line}: unknown split {split!r}")
        if split != "train" and not NAME.fullmatch(metric):
            raise RecordError(f"{line}: {metric[:SHOWN]!r} is not the name of a metric")
        if at in series[split, metric]:
            raise RecordError(f"{line}: {split} {metric} of round {at} appears twice")
        known = split == "train" or metric in (*METRICS, "clients")
        value = parse_number(text, metric, line) if known else parse_float(text, line)
        series[split, metric][at] = value
    return dict(series)


def read_lines(
    path: Path, columns: tuple[str, ...], ending: bool = False
) -> Iterator[tuple[Line, list[str]]]:
    """Yield the rows of a table of numbers, each with its place for error messages.

    Args:
        path: the file.
        columns: the names in its first line.
        ending: whether the last `LARGEST_TABLE` bytes are enough. Lines are then counted from
            there, if the file is larger.

    Raises:
        RecordError: the file is missing, too large, has other columns, or a row is cut short.
    """
    try:
        text, cut = read_end(path, LARGEST_TABLE)
    except OSError as error:
        raise RecordError(f"{path.name}: {system_reason(error)}") from None
    if cut and not ending:
        raise RecordError(f"{path.name} has more than {LARGEST_TABLE >> 20} MiB")
    header, *lines = text.splitlines() or [""]
    if not cut and tuple(header.split(",")) != columns:
        raise RecordError(f"{path.name} does not have the columns {', '.join(columns)}")
    for number, content in enumerate(lines, 2):
        if content:
            line, row = Line(path.name, number), content.split(",")  # numbers are not quoted
            if len(row) != len(columns):
                raise RecordError(f"{line} is cut short")
            yield line, row
    if not text.endswith("\n"):
        raise RecordError(f"{path.name} is cut short in its last line")


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

    Raises:
        RecordError: the text is something else.
    """
    value = parse_float(text, line)
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
