"""The cells of a table as the numbers that a network gets."""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from task.data.sources.base import cleaned
from task.data.sources.families.schema import Column, Schema
from task.errors import DataError

MISSING = frozenset(("", "?", "<na>", "n/a", "na", "nan", "nat", "none", "null"))
FLAGS = {"0": 0.0, "false": 0.0, "no": 0.0, "1": 1.0, "true": 1.0, "yes": 1.0}
MOST_SHOWN = 40  # characters of a cell in a message

Rows = NDArray[np.float32]
Place = Callable[[int], str]


def encode(schema: Schema, cells: Mapping[str, Sequence[str]], place: Place) -> Rows:
    """Return the numbers of each row, [N, C] float32.

    A missing number is NaN; the mean of its column takes its place once that is known. With an
    indicator, another missing value is 0.

    Args:
        schema: the columns.
        cells: the texts of each column, by its name.
        place: returns where row i is, for messages.

    Raises:
        DataError: a cell has a value that its column does not allow.
    """
    parts = [encode_column(column, cells[column.name], place) for column in schema.columns]
    return np.concatenate(parts, axis=1)


def encode_column(column: Column, texts: Sequence[str], place: Place) -> Rows:
    """Return the numbers of one column, [N, k].

    Raises:
        DataError: a cell has a value that the column does not allow.
    """
    missing = np.array([is_missing(column, text) for text in texts], dtype=np.bool_)
    if column.missing == "refuse" and missing.any():
        row = int(missing.argmax())
        cure = "write one, or set missing: of this column in the schema"
        raise DataError(f"{place(row)}: no {column.name}; {cure}")
    width = len(list(column.encoded()))
    found = np.zeros((len(texts), width), np.float32)
    if column.missing == "indicator":
        found[:, -1] = missing
    if column.type == "number":
        found[missing, 0] = np.nan
    read = READERS[column.type]
    for row in np.flatnonzero(~missing).tolist():
        try:
            at, value = read(column, texts[row])
        except ValueError as error:
            shown = texts[row][:MOST_SHOWN]
            raise DataError(f"{place(row)}: {column.name} is {shown!r}, {error}") from None
        found[row, at] = value
    return found


def encode_labels(
    names: Sequence[str], cells: Mapping[str, Sequence[str]], place: Place
) -> NDArray[np.uint8]:
    """Return which labels each row has, [N, D], 0 or 1.

    Args:
        names: the column of each label.
        cells: the texts of each column, by its name.
        place: returns where row i is, for messages.

    Raises:
        DataError: a cell is neither yes nor no.
    """
    parts = []
    for name in names:
        missing = [row for row, text in enumerate(cells[name]) if text.strip().lower() in MISSING]
        if missing:
            cure = "each label of each row must be known: write yes or no, or remove the row"
            raise DataError(f"{place(missing[0])}: no {name}; {cure}")
        parts.append(encode_column(Column(name, "flag"), cells[name], place))
    return np.concatenate(parts, axis=1).astype(np.uint8)


def is_missing(column: Column, text: str) -> bool:
    """Return whether a cell is empty, or what programs write for an empty one."""
    if column.type == "category" and cleaned(text) in (column.categories or ()):
        return False
    return text.strip().lower() in MISSING


def read_number(column: Column, text: str) -> tuple[int, float]:
    """Return the place in the column's numbers, and the value there.

    Raises:
        ValueError: it is no number, or outside the range of the schema.
    """
    try:
        value = float(text)
    except ValueError:
        raise ValueError("not a number; write a point before decimals") from None
    assert column.low is not None
    assert column.high is not None
    if not math.isfinite(value):
        raise ValueError("not a finite number")
    if not column.low <= value <= column.high:
        raise ValueError(f"outside {column.low:g} to {column.high:g}, the schema's low and high")
    return 0, value


def read_category(column: Column, text: str) -> tuple[int, float]:
    """Return the place of a category, and 1.

    Raises:
        ValueError: the schema does not list it.
    """
    categories = column.categories or []
    name = cleaned(text)
    if name not in categories:
        raise ValueError(f"not one of the schema's categories: {', '.join(categories[:10])}")
    return categories.index(name), 1.0


def read_flag(column: Column, text: str) -> tuple[int, float]:
    """Return 0, and 1 for yes or 0 for no.

    Raises:
        ValueError: it is neither.
    """
    del column
    try:
        return 0, FLAGS[text.strip().lower()]
    except KeyError:
        raise ValueError("not yes or no, true or false, 1 or 0") from None


READERS = {"number": read_number, "category": read_category, "flag": read_flag}
