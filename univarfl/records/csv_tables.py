"""The CSV files of records and reports, read and written as rows or data frames."""

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from server_app.runs.records.csv_files import escape_formula, restore, restore_cell
from server_app.runs.records.tables import RecordError, places_of
from task.errors import system_reason
from task.machine.regular import open_regular

if TYPE_CHECKING:
    import pandas as pd


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


def rows_under(path: Path, columns: Sequence[str]) -> list[list[str]]:
    """Return the rows of a CSV file that has these columns; further ones are left out.

    Raises:
        RecordError: the file cannot be read, lacks a column, or is cut short.
    """
    try:
        header, *rows = list(read_rows(path)) or [[]]
    except OSError as error:
        raise RecordError(f"{path.name}: {system_reason(error)}") from None
    except csv.Error as error:
        raise RecordError(f"{path.name} is not CSV: {error}") from None
    places = places_of(columns, header, path.name)
    if any(len(row) != len(header) for row in rows):
        raise RecordError(f"{path.name} is cut short")
    return [[row[place] for place in places] for row in rows]


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


def read_table(path: Path, text: Sequence[str] = ()) -> "pd.DataFrame":
    """Return a CSV file as a data frame.

    Args:
        path: the file.
        text: columns that are text, even if every cell is a number.

    Raises:
        RecordError: the file cannot be read, or is not CSV.
    """
    try:
        return read_frame(path, text)
    except OSError as error:
        raise RecordError(f"{path.name}: {system_reason(error)}") from None
    except ValueError as error:
        raise RecordError(f"{path.name} is not CSV: {str(error).splitlines()[0]}") from None


def frame_as_csv(frame: "pd.DataFrame") -> bytes:
    """Return a table, without its index, as the content of a CSV file."""
    safe = frame.map(escape_formula).rename(columns=escape_formula)
    # With this line end, a carriage return inside a cell is quoted.
    text: str = safe.to_csv(index=False, lineterminator="\r\n")
    return text.encode()
