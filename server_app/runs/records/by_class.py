"""The metrics of each class after the last round: ``class_metrics.csv`` and ``confusion.csv``.

Records made before these files existed, and those without test images, do not have them.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from server_app.runs.records.csv_files import rows_as_csv
from task.machine.files import write_whole
from task.training.one_vs_rest import ClassMetrics, OneVsRest

CLASS_METRICS, CONFUSION = "class_metrics.csv", "confusion.csv"
NAMES = tuple(field.name for field in dataclasses.fields(ClassMetrics))
CLASS_METRICS_COLUMNS = ("class", *NAMES)
TRUE_CLASS = "true class"


def save_by_class(directory: Path, classes: Sequence[str], found: OneVsRest) -> None:
    """Write both files; an undefined metric is an empty cell.

    Without a confusion matrix there is one file.

    Args:
        directory: the run directory.
        classes: the class names.
        found: the metrics.

    Raises:
        OSError: they cannot be written.
    """
    rows = zip(classes, map(dataclasses.astuple, found.classes), strict=True)
    metrics = [[name, *("" if cell is None else cell for cell in row)] for name, row in rows]
    write_whole(directory / CLASS_METRICS, rows_as_csv([CLASS_METRICS_COLUMNS, *metrics]))
    if not found.confusion:
        return
    matrix = [[name, *row] for name, row in zip(classes, found.confusion, strict=True)]
    write_whole(directory / CONFUSION, rows_as_csv([[TRUE_CLASS, *classes], *matrix]))
