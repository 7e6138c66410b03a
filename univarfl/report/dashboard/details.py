"""What the dashboard shows of one run: settings, curves, clients, sites, failures and events."""

import csv
import math
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from server_app.config.differences import deciding
from server_app.config.override_text import as_typed
from server_app.runs.records.csv_files import restore_cell
from server_app.runs.records.run_record import RunRecord, read_record
from server_app.runs.records.tables import (
    CLIENT_COLUMNS,
    CLIENTS,
    EVENT_COLUMNS,
    EVENTS,
    ROUND_COLUMNS,
    ROUNDS,
    SPLITS,
    RecordError,
    parse_count,
    parse_number,
    places_of,
)
from task.errors import system_reason
from task.given_weights import MODEL
from task.machine.regular import LARGEST_TABLE, read_end
from univarfl.records.clients import file_of, last_rows
from univarfl.records.labels import label_of_metric, shown_value
from univarfl.report.dashboard.participants import participants_of

MOST_SERIES, MOST_EVENTS, LONGEST = 64, 200, 500
MOST_CLIENT_ROWS = 100_000
LARGEST_ROUND = 10_000_000
MEGABYTE = 1_000_000

Series = dict[tuple[str, str], dict[int, float]]


def details_of(directory: Path, status: str) -> dict[str, Any]:
    """Return a run as JSON can hold it; what is damaged is left out and named in ``problems``.

    Args:
        directory: the run directory.
        status: the run's status.
    """
    problems: list[str] = []
    record = record_of(directory, problems)
    series = series_of(directory, problems)
    clients = clients_of(directory, problems)
    events = list(rows_of(directory / EVENTS, EVENT_COLUMNS, problems))[-MOST_EVENTS:]
    return {
        "name": directory.name,
        "status": status,
        "started": record.started if record else "",
        "settings": settings_of(record) if record else {},
        "series": {
            f"{split} {metric}": {
                "label": f"{split} {label_of_metric(metric)}",
                "round": [*points],
                "value": [finite(shown_value(metric, value)) for value in points.values()],
            }
            for (split, metric), points in series.items()
        },
        "elapsed": elapsed(series, *bytes_of(record, directory)),
        **participants_of(clients),
        "events": [[cell[:LONGEST] for cell in row] for row in events],
        "problems": problems,
    }


def record_of(directory: Path, problems: list[str]) -> RunRecord | None:
    """Return the record; None if it cannot be read."""
    try:
        return read_record(directory)
    except RecordError as error:
        problems.append(str(error))
        return None


def settings_of(record: RunRecord) -> dict[str, str]:
    """Return the settings that decide a run's result, as text."""
    return {key: as_typed(value)[:LONGEST] for key, value in deciding(record.config).items()}


def series_of(directory: Path, problems: list[str]) -> Series:
    """Return the values of ``rounds.csv`` by round, by split and metric; damaged rows are left out.

    The last row of a run that goes on may be cut short.
    """
    series: Series = defaultdict(dict)
    damaged = 0
    for row in rows_of(directory / ROUNDS, ROUND_COLUMNS, problems):
        try:
            at, split, metric, text = row
            value, name = parse_number(text, metric, ROUNDS), (split, metric[:LONGEST])
            if split not in SPLITS or (name not in series and len(series) >= MOST_SERIES):
                raise RecordError(metric)
            server_round = parse_count(at[:9], ROUNDS)
            if server_round > LARGEST_ROUND:
                raise RecordError(at)
            series[name][server_round] = value
        except ValueError:
            damaged += 1
    if damaged:
        problems.append(f"{ROUNDS}: {damaged} damaged row{'s' if damaged > 1 else ''} left out")
    return {name: dict(sorted(points.items())) for name, points in series.items()}


def rows_of(path: Path, columns: Sequence[str], problems: list[str]) -> Iterator[list[str]]:
    """Yield the complete rows of a table, without the header; of a large table, the last ones."""
    try:
        text, cut = read_end(path, LARGEST_TABLE)
    except FileNotFoundError:  # saved records have no table of clients
        return
    except OSError as error:
        problems.append(f"{path.name}: {system_reason(error)}")
        return
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines.pop()
    places = list(range(len(columns)))
    if cut:
        problems.append(f"{path.name} is large; only its last rows are shown")
    else:
        try:
            places = places_of(columns, lines[0].strip().split(",") if lines else (), path.name)
        except RecordError as error:
            problems.append(str(error))
            return
    try:
        for row in csv.reader(lines[1:]):
            if len(row) > max(places):
                yield [str(restore_cell(row[place])) for place in places]
    except csv.Error:
        problems.append(f"{path.name} is damaged")


def clients_of(directory: Path, problems: list[str]) -> Sequence[Sequence[str]]:
    """Return the rows of the table of the clients, of a long one the last `MOST_CLIENT_ROWS`."""
    path = file_of(directory)
    rows: deque[list[str]] = deque(maxlen=MOST_CLIENT_ROWS)
    count = 0
    if path.name == CLIENTS:
        for row in rows_of(path, CLIENT_COLUMNS, problems):
            rows.append(row)
            count += 1
    else:
        try:
            last, count = last_rows(path, MOST_CLIENT_ROWS)
            rows.extend(last)
        except RecordError as error:
            problems.append(str(error))
    if count > MOST_CLIENT_ROWS:
        problems.append(f"{path.name} is long; its last {MOST_CLIENT_ROWS:,} rows are counted")
    return rows


def finite(value: float) -> float | None:
    """Return a number that JSON can hold; None for one that diverged or is too large."""
    return value if math.isfinite(value) else None


def elapsed(
    series: Series, request: int | None, reply: int | None
) -> list[tuple[int, float | None, float | None]]:
    """Return each round with the seconds and the megabytes since the start of the run.

    Args:
        series: the values of ``rounds.csv``.
        request: bytes that a participant receives; None if unknown.
        reply: bytes that it returns.
    """
    train = {metric: points for (split, metric), points in series.items() if split == "train"}
    seconds, megabytes = 0.0, 0.0
    known = request is not None and reply is not None
    found: list[tuple[int, float | None, float | None]] = [(0, 0.0, 0.0 if known else None)]
    for at, spent in train.get("seconds", {}).items():
        returned, failed = (train.get(name, {}).get(at, 0.0) for name in ("clients", "failed"))
        seconds += spent
        asked = (returned + failed) * (request or 0)
        megabytes += (asked + returned * (reply or 0)) / MEGABYTE
        sent = finite(round(megabytes, 3)) if known else None
        found.append((at, finite(round(seconds, 3)), sent))
    return found


def bytes_of(record: RunRecord | None, directory: Path) -> tuple[int | None, int | None]:
    """Return the sizes of a participant's request and reply; None if unknown.

    A record of an older version has the reply's size, or none, and the final model's counts.
    """
    reply = record.reply_bytes if record else None
    if reply is None:
        with suppress(OSError):
            reply = (directory / MODEL).lstat().st_size or None
    return (record.request_bytes if record else None) or reply, reply
