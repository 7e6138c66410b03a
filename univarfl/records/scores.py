"""The scores of single classes and clients after the last round, read from their files."""

from collections.abc import Sequence
from pathlib import Path

from server_app.runs.records.by_class import (
    CLASS_METRICS,
    CLASS_METRICS_COLUMNS,
    CONFUSION,
    NAMES,
    TRUE_CLASS,
)
from server_app.runs.records.client_scores import (
    CLIENT_SCORE_COLUMNS,
    CLIENT_SCORES,
    ClientScore,
)
from server_app.runs.records.tables import RecordError, parse_count, parse_number
from task.training.one_vs_rest import ClassMetrics, OneVsRest
from univarfl.records.csv_tables import rows_under


def read_by_class(
    directory: Path, classes: Sequence[str], *, multilabel: bool = False
) -> OneVsRest | None:
    """Return what `save_by_class` wrote; None if the record has no such files.

    Args:
        directory: the run directory.
        classes: the class names.
        multilabel: whether an image can have several; there is no confusion matrix then.

    Raises:
        RecordError: a file is missing, or wrong.
    """
    if not (directory / CLASS_METRICS).exists() and not (directory / CONFUSION).exists():
        return None
    metrics = read_class_table(directory / CLASS_METRICS, CLASS_METRICS_COLUMNS, classes)
    found = [
        ClassMetrics(
            parse_count(row[0], CLASS_METRICS),
            *(parse_share(cell, name) for cell, name in zip(row[1:], NAMES[1:], strict=True)),
        )
        for row in metrics
    ]
    if multilabel:
        return OneVsRest(found, ())
    matrix = read_class_table(directory / CONFUSION, (TRUE_CLASS, *classes), classes)
    confusion = [[parse_count(cell, CONFUSION) for cell in row] for row in matrix]
    if [each.images for each in found] != list(map(sum, confusion)):
        raise RecordError(f"{CLASS_METRICS} and {CONFUSION} differ in the number of images")
    return OneVsRest(found, confusion)


def read_class_table(path: Path, columns: Sequence[str], classes: Sequence[str]) -> list[list[str]]:
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
        RecordError: the text is not such a value.
    """
    return parse_number(text, "recall", f"{CLASS_METRICS}, {name}") if text else None


def read_client_scores(directory: Path) -> list[ClientScore]:
    """Return what `save_client_scores` wrote; empty if the record has no such file.

    Raises:
        RecordError: the file cannot be read, or is wrong.
    """
    path = directory / CLIENT_SCORES
    if not path.exists():
        return []
    rows = rows_under(path, CLIENT_SCORE_COLUMNS)
    return [
        ClientScore(
            parse_count(client, path.name),
            site,
            parse_count(images, path.name),
            parse_number(accuracy, "accuracy", path.name),
            parse_number(loss, "loss", path.name),
        )
        for client, site, images, accuracy, loss in rows
    ]
