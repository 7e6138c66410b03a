"""CSV files that are safe to open in a spreadsheet.

A spreadsheet runs text such as ``=cmd|...`` as a formula. Every CSV file that univarfl writes has
a ``'`` before such text; the readers remove it, so names stay the same.
"""

import csv
import io
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    import pandas as pd

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
MARK = "'"


def escape_formula(cell: Any) -> Any:
    """Return the cell, with ``'`` in front if it is text that a spreadsheet runs as a formula.

    Numbers stay as they are, also those written as text, such as "-1.5".
    """
    return MARK + cell if isinstance(cell, str) and is_formula(cell.lstrip(MARK)) else cell


def restore_cell(cell: Any) -> Any:
    """Return the cell as it was before `escape_formula`."""
    if isinstance(cell, str) and cell.startswith(MARK) and is_formula(cell.lstrip(MARK)):
        return cell.removeprefix(MARK)
    return cell


def is_formula(text: str) -> bool:
    """Return whether a spreadsheet takes the text for a formula."""
    return text.startswith(FORMULA_STARTS) and not is_number(text)


def is_number(text: str) -> bool:
    """Return whether the text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def write_rows(file: TextIO, rows: Iterable[Iterable[Any]]) -> None:
    """Write rows to a file opened with ``newline=""``."""
    csv.writer(file).writerows([escape_formula(cell) for cell in row] for row in rows)


def rows_as_csv(rows: Iterable[Iterable[Any]]) -> bytes:
    """Return rows as the content of a CSV file."""
    text = io.StringIO(newline="")
    write_rows(text, rows)
    return text.getvalue().encode()


def restore(frame: "pd.DataFrame") -> "pd.DataFrame":
    """Return a table as it was before `escape_formula`."""
    for name in frame.select_dtypes(exclude="number").columns:
        found = frame[name]
        frame[name] = found.map(restore_cell, na_action="ignore").astype(found.dtype)
    return frame.rename(columns=restore_cell)
