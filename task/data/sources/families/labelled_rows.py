"""The labelled rows of a table: label, split, domain and subject of each, and its test set."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from task.data.sources.families.given_splits import SPLITS, split_test
from task.data.sources.families.held_out import sample_test_subjects
from task.data.sources.families.names import Kind, names_of
from task.errors import DataError

NEEDED = ("image", "label")
KINDS: tuple[Kind, ...] = ("label", "domain", "subject")


class Row(NamedTuple):
    """One image. A column that the table lacks is empty in every row."""

    line: int
    image: str
    label: str = ""
    split: str = ""
    domain: str = ""
    subject: str = ""


def clean_names(table: Path, rows: Sequence[tuple[int, dict[str, str]]]) -> list[str]:
    """Clean the labels, domains and subjects in the rows, and return notes on them.

    Raises:
        DataError: one is missing, or cannot be printed.
    """
    notes = []
    for kind in KINDS:
        if kind not in rows[0][1]:
            continue
        names = names_of(
            kind,
            [values[kind] for _, values in rows],
            lambda index: f"{table}, line {rows[index][0]}",
            every_row(kind),
        )
        for (_, values), name in zip(rows, names.each, strict=True):
            values[kind] = name
        notes += names.notes
    return notes


def every_row(column: str) -> str:
    """Return what to do if a row has no value in a column."""
    return "every row needs one" + ("" if column in NEEDED else ", or remove the column")


def checked_row(table: Path, line: int, values: dict[str, str]) -> Row:
    """Return one row.

    Raises:
        DataError: a value is missing or cannot be used.
    """
    where = f"{table}, line {line}"
    for name, value in values.items():
        if not value:
            raise DataError(f"{where}: no {name}; {every_row(name)}")
        if not value.isprintable():
            raise DataError(f"{where}: the {name} has characters that cannot be printed")
    if "split" in values:
        values["split"] = values["split"].lower()
        if values["split"] not in SPLITS:
            raise DataError(f"{where}: split {values['split']!r}; must be train, val or test")
    return Row(line, **values)


def refuse_shared_subjects(table: Path, rows: Sequence[Row]) -> None:
    """Refuse a subject that is in the test set and in another split.

    Raises:
        DataError: there is one.
    """
    first: dict[str, tuple[Row, bool]] = {}
    test = split_test([row.split for row in rows]).tolist()
    for row, tested in zip(rows, test, strict=True):
        other, other_tested = first.setdefault(row.subject, (row, tested))
        if row.subject and tested != other_tested:
            places = f"in split {row.split}, and in line {other.line} in split {other.split}"
            raise DataError(
                f"{table}, line {row.line}: subject {row.subject!r} is {places}; put all images of "
                "a subject on one side, or give different subjects different names"
            )


def rows_for_testing(table: Path, rows: Sequence[Row], share: float) -> NDArray[np.bool_]:
    """Return which rows are for testing: those of the given splits, or else a share of each class.

    Raises:
        DataError: a subject is on both sides.
    """
    test = split_test([row.split for row in rows])
    if test.any():
        refuse_shared_subjects(table, rows)
        return test
    groups = [(row.domain, row.label) for row in rows]
    return sample_test_subjects(groups, [row.subject or row.image for row in rows], share)
