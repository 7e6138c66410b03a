"""The rows of a table in a text file, whose columns have names."""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

from task.errors import DataError


def read_rows(
    table: Path, needed: Sequence[str], optional: Sequence[str], cure: str
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the line of each row, and its values by the name of the column.

    The separator is a comma, a semicolon or a tab. Columns that are not named here are left out.

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
            head = file.readline()
            file.seek(0)
            reader = csv.reader(file, delimiter=max(",;\t", key=head.count), strict=True)
            columns = [name.strip() for name in next(reader, ())]
            if missing := [name for name in needed if name not in columns]:
                raise DataError(f"{table}: no column {', '.join(missing)}; {cure}")
            for name in (*needed, *optional):
                if columns.count(name) > 1:
                    raise DataError(f"{table}: has the column {name} twice; remove one of them")
            for fields in reader:
                if not fields:
                    continue
                if len(fields) != len(columns):
                    counts = f"{len(fields)} fields, but the table has {len(columns)} columns"
                    quote = "write a text that contains the separator in quotes"
                    raise DataError(f"{table}, line {reader.line_num}: {counts}; {quote}")
                values = dict(zip(columns, map(str.strip, fields), strict=True))
                yield (
                    reader.line_num,
                    {name: values[name] for name in (*needed, *optional) if name in values},
                )
    except UnicodeDecodeError:
        raise DataError(f"{table}: is not text in UTF-8; save it in this encoding") from None
    except csv.Error as error:
        raise DataError(f"{table}, line {reader.line_num}: {error}") from None
