"""The rows of a table in a text file, whose columns have names."""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TextIO

from task.errors import DataError

SEPARATORS, EXCELS = (",", ";", "\t"), "sep="
MOST_NAMED = 10  # columns in a message


def read_rows(
    table: Path, needed: Sequence[str], optional: Sequence[str], cure: str
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the line of each row, and its values by the name of the column.

    The separator is a comma, a semicolon or a tab. Columns that are not named here are left out.
    Excel's line ``sep=;``, its empty rows and its empty cells at the end of rows do not count, nor
    does the case of the columns' names.

    Args:
        table: the file.
        needed: names of columns that must be there.
        optional: names of columns that can be there.
        cure: what the user can do if a column is missing.

    Raises:
        DataError: it is not such a table.
        OSError: it cannot be read.
    """
    try:
        with table.open(newline="", encoding="utf-8-sig") as file:
            separator, skipped = separator_of(file)
            reader = csv.reader(file, delimiter=separator, strict=True)
            rows = (row for row in reader if any(map(str.strip, row)))
            columns = column_names(table, next(rows, []), (*needed, *optional))
            if missing := [name for name in needed if name not in columns]:
                found = ", ".join(columns[:MOST_NAMED]) or "nothing"
                what = f"no column {', '.join(missing)}; {cure} (the first line has {found})"
                raise DataError(f"{table}: {what}")
            for row in rows:
                fields = [*map(str.strip, row)]
                unread = {*columns[len(fields) :]}.isdisjoint((*needed, *optional))
                if any(fields[len(columns) :]) or not unread:
                    counts = f"{len(fields)} fields, but the table has {len(columns)} columns"
                    quote = "write a text that contains the separator in quotes"
                    raise DataError(f"{table}, line {skipped + reader.line_num}: {counts}; {quote}")
                values = dict(zip(columns, fields, strict=False))
                yield (
                    skipped + reader.line_num,
                    {name: values[name] for name in (*needed, *optional) if name in values},
                )
    except UnicodeDecodeError:
        raise DataError(f"{table}: is not text in UTF-8; save it in this encoding") from None
    except csv.Error as error:
        raise DataError(f"{table}, line {skipped + reader.line_num}: {error}") from None


def separator_of(file: TextIO) -> tuple[str, int]:
    """Return the separator, after reading Excel's line ``sep=;``, and how many lines were read."""
    head = file.readline()
    if head.lower().startswith(EXCELS) and head[len(EXCELS) :].strip("\r\n") in SEPARATORS:
        return head[len(EXCELS)], 1
    while head and not head.strip():
        head = file.readline()
    file.seek(0)
    return max(SEPARATORS, key=head.count), 0


def column_names(table: Path, head: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """Return the names in a table's first line; those that differ in case only become the wanted.

    Raises:
        DataError: a wanted name is there twice.
    """
    columns = [name.strip().strip("\ufeff") for name in head]
    for name in wanted:
        alike = [at for at, column in enumerate(columns) if column.lower() == name.lower()]
        same = [at for at in alike if columns[at] == name] or alike
        if len(same) > 1:
            raise DataError(f"{table}: has the column {name} twice; remove one of them")
        for at in same:
            columns[at] = name
    return columns
