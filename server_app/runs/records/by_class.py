"""The metrics of each class after the last round: ``class_metrics.csv`` and ``confusion.csv``.

Records made before these files existed, and those without test images, do not have them.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from server_app.runs.records.csv_files import rows_as_csv
from server_app.runs.records.tables import RecordError, parse_count, parse_number, rows_under
from task.machine.files import write_whole
from task.training.one_vs_rest import ClassMetrics, OneVsRest

CLASS_METRICS, CONFUSION = "class_metrics.csv", "confusion.csv"
NAMES = tuple(field.name for field in dataclasses.fields(ClassMetrics))
CLASS_METRICS_COLUMNS = ("class", *NAMES)
TRUE_CLASS = "true class"


def save_by_class(directory: Path, classes: Sequence[str], found: OneVsRest) -> None:
    """Write both files; an undefined metric is an empty cell.

    Args:
        directory: the run directory.
        classes: the class names.
        found: the metrics.

    Raises:
        OSError: they cannot be written.
    """
    rows = zip(classes, map(dataclasses.astuple, found.classes), strict=True)
    metrics = [[name, *("" if cell is None else cell for cell in row)] for name, row in rows]
    matrix = [[name, *row] for name, row in zip(classes, found.confusion, strict=True)]
    write_whole(directory / CLASS_METRICS, rows_as_csv([CLASS_METRICS_COLUMNS, *metrics]))
    write_whole(directory / CONFUSION, rows_as_csv([[TRUE_CLASS, *classes], *matrix]))


def read_by_class(directory: Path, classes: Sequence[str]) -> OneVsRest | None:
    """Return what `save_by_class` wrote; None if the record has no such files.

    Args:
        directory: the run directory.
        classes: the class names.

    Raises:
        RecordError: a file is missing, or wrong.
    """
    if not (directory / CLASS_METRICS).exists() and not (directory / CONFUSION).exists():
        return None
    metrics = read_table(directory / CLASS_METRICS, CLASS_METRICS_COLUMNS, classes)
    matrix = read_table(directory / CONFUSION, (TRUE_CLASS, *classes), classes)
    confusion = [[parse_count(cell, CONFUSION) for cell in row] for row in matrix]
    found = [
        ClassMetrics(
            parse_count(row[0], CLASS_METRICS),
            *(parse_share(cell, name) for cell, name in zip(row[1:], NAMES[1:], strict=True)),
        )
        for row in metrics
    ]
    if [each.images for each in found] != list(map(sum, confusion)):
        raise RecordError(f"{CLASS_METRICS} and {CONFUSION} differ in the number of images")
    return OneVsRest(found, confusion)


def read_table(path: Path, columns: Sequence[str], classes: Sequence[str]) -> list[list[str]]:
    """Return the cells of a table with one row for each class, without the classes' names.

    Raises:
        RecordError: the file is missing, or has other rows or columns.
    """
    rows = rows_under(path, columns)
    if [row[0] for row in rows] != list(classes):
        raise RecordError(f"{path.name} has other classes than run.json")
    return [row[1:] for row in rows]


def parse_share(text: str, name: str) -> float | None:
    """Return a value from 0 to 1, None for an empty cell.

    Raises:
        RecordError: it is something else.
    """
    return parse_number(text, "recall", f"{CLASS_METRICS}, {name}") if text else None
