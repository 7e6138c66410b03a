"""CSV files that are safe to open in a spreadsheet, and their reader.

A spreadsheet runs text such as ``=cmd|...`` as a formula. Every CSV file that univarfl writes has
a ``'`` before such text; the readers here remove it, so names stay the same.
"""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from task.machine.regular import open_regular

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


def read_rows(path: Path) -> Iterator[list[str]]:
    """Yield the rows of a CSV file, the header first; undecodable bytes are replaced.

    Raises:
        OSError: the file cannot be read, or is no regular file.
    """
    with (
        open_regular(path) as file,
        io.TextIOWrapper(file, newline="", encoding="utf-8", errors="replace") as text,
    ):
        for row in csv.reader(text):
            yield [restore_cell(cell) for cell in row]


def frame_as_csv(frame: "pd.DataFrame") -> bytes:
    """Return a table, without its index, as the content of a CSV file."""
    safe = frame.map(escape_formula).rename(columns=escape_formula)
    # With this line end, a carriage return inside a cell is quoted.
    text: str = safe.to_csv(index=False, lineterminator="\r\n")
    return text.encode()


def read_frame(path: Path, text: Sequence[str] = ()) -> "pd.DataFrame":
    """Return a table; only empty cells are missing values, as a class may be called "NA".

    Args:
        path: the file.
        text: columns that are text, even if every cell is a number.

    Raises:
        OSError, ValueError: the file cannot be read, or is not CSV.
    """
    # Imported here because a run, which writes CSV files too, does not need pandas.
    import pandas as pd  # noqa: PLC0415

    types = dict.fromkeys(text, "str")
    with open_regular(path) as file:
        return restore(pd.read_csv(file, keep_default_na=False, na_values=[""], dtype=types))


def restore(frame: "pd.DataFrame") -> "pd.DataFrame":
    """Return a table as it was before `escape_formula`."""
    for name in frame.select_dtypes(exclude="number").columns:
        found = frame[name]
        frame[name] = found.map(restore_cell, na_action="ignore").astype(found.dtype)
    return frame.rename(columns=restore_cell)
