"""Columns of tables of the library ``datasets``."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from task.data.sources.base import cleaned
from task.data.sources.families.names import Kind, names_of


class Column(NamedTuple):
    """A column's distinct names, for each row of all tables an index into them, and notes."""

    names: tuple[str, ...]
    numbers: NDArray[np.int64]
    notes: list[str]


def column_of(
    tables: Sequence[Any], column: str, kind: Kind, place: Callable[[int], str]
) -> Column:
    """Return a column of labels, domains or subjects.

    The names are in the order of the column's class labels if it has them, else numbers by value
    and texts sorted.

    Args:
        tables: one for each split.
        column: its name.
        kind: what it names.
        place: returns where the value of a row is stored, for messages.

    Raises:
        DataError: a value is missing or is no name.
    """
    values: list[object] = []
    given: list[str] = []
    for table in tables:
        feature, own = table.features[column], list(table[column])
        if hasattr(feature, "names"):  # -1 is the Hub's missing label
            given += feature.names
            known = dict(enumerate(feature.names))
            own = [known.get(value) for value in own]
        values += own
    more = " (a split without labels cannot be used)" if kind == "label" else ""
    cure = f"every row needs one{more or f', or add data.{kind}=null'}"
    names = names_of(kind, values, place, cure)
    numeric = all(isinstance(value, int | float) for value in values)
    by_value = sorted(zip(values, names.each, strict=True)) if numeric else []
    sorted_names = [name for _, name in by_value] or sorted(set(names.each))
    ordered = dict.fromkeys([*map(cleaned, given), *sorted_names])
    at = {name: index for index, name in enumerate(ordered)}
    numbers = np.array([at[name] for name in names.each], dtype=np.int64)
    return Column(tuple(ordered), numbers, names.notes)
