"""The check of every file that a resumed run builds on, and of single lines of its tables."""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path

from server_app.config.experiment import Experiment
from server_app.rounds.after.base import stage_of
from server_app.runs.checkpoint import DIRECTORY, Checkpoint, load_checkpoint
from server_app.runs.records.by_class import CLASS_METRICS, CONFUSION
from server_app.runs.records.client_scores import CLIENT_SCORES
from server_app.runs.records.record import damaged
from server_app.runs.records.tables import (
    CLASS_COLUMNS,
    CLASSES,
    CLIENT_COLUMNS,
    CLIENT_TEXT,
    CLIENTS,
    EVENT_COLUMNS,
    EVENTS,
    ROUND_COLUMNS,
    ROUNDS,
    SHOWN,
    SPLITS,
    Line,
    RecordError,
    cells_of,
    count_rounds,
    parse_count,
    parse_number,
)
from task.errors import system_reason
from task.given_weights import MODEL
from task.machine.files import Mark, mark_of
from task.machine.regular import open_regular

COLUMNS: Mapping[str, tuple[str, ...]] = {
    ROUNDS: ROUND_COLUMNS, CLASSES: CLASS_COLUMNS, CLIENTS: CLIENT_COLUMNS, EVENTS: EVENT_COLUMNS
}  # fmt: skip
COUNTS = ("round", "client", "class", "examples")
STATUSES = ("ok", "left out", "failed")
TEXT = (*CLIENT_TEXT, "metric", "event")


def usable_checkpoint(directory: Path, experiment: Experiment) -> Checkpoint | None:
    """Return the checkpoint from which a run goes on, after a check of every file; None if none.

    Without a checkpoint, the tables are started again.

    Raises:
        ConfigError: a file is missing or damaged; the text names it and, for a table, the line.
    """
    checkpoint = load_checkpoint(directory)
    if checkpoint is None:
        if (rounds := count_rounds(directory)) > 1:
            lost = f"{DIRECTORY}/ has no checkpoint, although {ROUNDS} has {rounds} rounds"
            raise damaged(directory, lost)
        check_events(directory, 0)
        return None
    written = files_of_stage(experiment)
    for name, mark in checkpoint.files.items():
        if name not in written:
            check_file(directory, name, mark)
    if lacking := [name for name in COLUMNS if name not in checkpoint.files]:
        raise damaged(directory, f"the checkpoint of round {checkpoint.round} lacks {lacking[0]}")
    check_events(directory, checkpoint.files[EVENTS][0])
    return checkpoint


def files_of_stage(experiment: Experiment) -> tuple[str, ...]:
    """Return the files that the stage after training replaces; a resumed run repeats it."""
    stage = stage_of(experiment)
    if not stage.changes_model:
        return ()
    return (CLIENT_SCORES,) if stage.at_clients else (
        CLIENT_SCORES, MODEL, CLASS_METRICS, CONFUSION
    )  # fmt: skip


def check_file(directory: Path, name: str, mark: Mark) -> None:
    """Refuse a file that does not begin with what the run wrote.

    Raises:
        ConfigError: it is missing, cut short or changed.
    """
    length, expected = mark
    try:
        with open_regular(directory / name) as file:
            found, content_hash = mark_of(file, length)
    except OSError as error:
        raise damaged(directory, f"{name}: {system_reason(error)}") from None
    if found == length and content_hash == expected:
        return
    if name in COLUMNS:
        check_lines(directory, name, 0, length)
    if found < length:
        raise damaged(directory, f"{name} is cut short: it has {found} of {length} bytes")
    raise damaged(directory, f"{name} was changed: its first {length} bytes have another hash")


def check_events(directory: Path, known: int) -> None:
    """Refuse damaged events; the last line may be cut short, and is then removed.

    Args:
        directory: the run directory.
        known: the number of bytes that a checkpoint vouches for.

    Raises:
        ConfigError: the file is missing, or a line is damaged.
    """
    check_lines(directory, EVENTS, known, None)


def check_lines(directory: Path, name: str, known: int, most: int | None) -> None:
    """Refuse a table with a damaged line.

    Args:
        directory: the run directory.
        name: of the table.
        known: the number of bytes at its start that are not checked.
        most: the number of bytes that it must have; None if its last line may be cut short.

    Raises:
        ConfigError: it cannot be read, or a line is damaged.
    """
    try:
        for line, cells in lines_of(directory / name, known, most):
            check_cells(line, cells)
    except OSError as error:
        raise damaged(directory, f"{name}: {system_reason(error)}") from None
    except RecordError as error:
        raise damaged(directory, str(error)) from None


def lines_of(
    path: Path, known: int, most: int | None
) -> Iterator[tuple[Line, list[tuple[str, str]]]]:
    """Yield the lines of a table after its first `known` bytes, as pairs of column and cell.

    Raises:
        OSError: it cannot be read.
        RecordError: its columns are wrong, or a line has other columns or is cut short.
    """
    columns: list[str] = []
    with open_regular(path) as file:
        number = place = 0
        for content in file:
            number, place = number + 1, place + len(content)
            line = Line(path.name, number)
            if (most is not None and place > most) or (most is None and content[-1:] != b"\n"):
                break
            if columns and place <= known:
                continue
            try:
                cells = cells_of(content.decode(), line)
            except UnicodeDecodeError as error:
                raise RecordError(f"{line} is not CSV: {error}") from None
            if not columns:
                if tuple(cells[: len(COLUMNS[path.name])]) != COLUMNS[path.name]:
                    raise RecordError(f"{line} does not name the columns")
                columns = cells
                continue
            if len(cells) != len(columns):
                raise RecordError(f"{line} is cut short, or has other columns")
            yield line, list(zip(columns, cells, strict=True))
    if not columns:
        raise RecordError(f"{Line(path.name, 1)} does not name the columns")
    if most is not None and place < most:
        raise RecordError(f"{line}: the file ends there, with {place} of {most} bytes")


def check_cells(line: Line, cells: list[tuple[str, str]]) -> None:
    """Refuse a cell whose value its column cannot have.

    Raises:
        RecordError: there is one.
    """
    row = dict(cells)
    if row.get("split", "test") not in SPLITS:
        raise RecordError(f"{line}: unknown split {row['split']!r}")
    if "reason" in row and row["status"] not in STATUSES:
        raise RecordError(f"{line}: unknown status {row['status']!r}")
    for column, text in cells:
        if column in COUNTS:
            parse_count(text or "0", line)
        elif column == "value":
            parse_number(text, row["metric"], line)
        elif column == "time":
            check_form(text, datetime.fromisoformat, "a time", line)
        elif column not in (*TEXT, "split") and text:
            check_form(text, float, "a number", line)


def check_form(text: str, form: Callable[[str], object], what: str, line: Line) -> None:
    """Refuse text that `form` cannot read.

    Raises:
        RecordError: it cannot.
    """
    try:
        form(text)
    except ValueError:
        raise RecordError(f"{line}: {text[:SHOWN]!r} is not {what}") from None
