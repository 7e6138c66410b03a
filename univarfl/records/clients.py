"""The reader of ``clients.csv`` or ``clients.parquet``, whichever a record has."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from server_app.runs.records.compaction import type_of, with_numbers
from server_app.runs.records.tables import (
    CLIENT_COLUMNS,
    CLIENT_NUMBERS,
    CLIENT_TEXT,
    CLIENTS,
    PARQUET,
    RecordError,
)
from task.errors import system_reason
from task.machine.regular import open_regular
from univarfl.records.csv_tables import read_table

if TYPE_CHECKING:
    import pandas as pd

# pandas and pyarrow are imported where they are needed: the command starts without them.

# Of a ``clients.parquet`` that is read: rows, and bytes before and after its texts are repeated.
MOST_ROWS, MOST_BYTES, MOST_TEXT = 50_000_000, 8 << 30, 2 << 30


def file_of(directory: Path) -> Path:
    """Return the path of a run's table; that of ``clients.csv`` if there is none."""
    table, compact = directory / CLIENTS, directory / PARQUET
    return compact if compact.exists() and not table.exists() else table


def read_clients(directory: Path) -> "pd.DataFrame":
    """Return the table of a run's clients; the same frame from either file.

    Raises:
        RecordError: there is no such file, or it is damaged.
    """
    path = file_of(directory)
    if path.name == PARQUET:
        with opened(path) as table:
            frame: pd.DataFrame = decoded(table.read(usable(table))).to_pandas()
        return frame
    frame = read_table(path, CLIENT_TEXT)
    try:
        return with_numbers(frame)
    except ValueError as error:
        raise RecordError(f"{path.name} is damaged: {error}") from None


def last_rows(path: Path, most: int) -> tuple[list[list[str]], int]:
    """Return the last rows of ``clients.parquet`` as the text of `CLIENT_COLUMNS`, and their count.

    Args:
        path: the file.
        most: the largest number of rows to return.

    Returns:
        The rows, a column that the file lacks being empty; and the number of rows in the file.

    Raises:
        RecordError: the file is missing or damaged.
    """
    import pyarrow as pa  # noqa: PLC0415

    with opened(path) as table:
        count = table.metadata.num_rows
        groups, found = table.num_row_groups, 0
        while groups and found < most:
            groups -= 1
            found += table.metadata.row_group(groups).num_rows
        names = [name for name in CLIENT_COLUMNS if name in table.schema_arrow.names]
        last = table.read_row_groups(range(groups, table.num_row_groups), columns=names)
        last = decoded(last.slice(max(0, last.num_rows - most)))
    none = [""] * last.num_rows
    cells = {name: last[name].cast(pa.string()).fill_null("").to_pylist() for name in names}
    columns = (cells.get(name, none) for name in CLIENT_COLUMNS)
    return [list(row) for row in zip(*columns, strict=True)], count


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """Open ``clients.parquet``, with checks, as a `pyarrow.parquet.ParquetFile`.

    Raises:
        RecordError: it is missing or damaged, or the block finds damage.
    """
    import pyarrow as pa  # noqa: PLC0415

    try:
        with open_regular(path) as file:
            yield checked(file)
    except (OSError, ValueError, LookupError, pa.ArrowException) as error:
        if isinstance(error, OSError) and error.errno is not None:  # pyarrow's have no number
            raise RecordError(f"{path.name}: {system_reason(error)}") from None
        reason, *_ = str(error).splitlines() or [type(error).__name__]
        raise RecordError(f"{path.name} is damaged: {reason}") from None


def checked(file: BinaryIO) -> Any:
    """Return the `pyarrow.parquet.ParquetFile` in a file, if it can be a table of clients.

    Raises:
        OSError, ValueError, ArrowException: it is damaged, too large, or has other columns.
    """
    from pyarrow import parquet  # noqa: PLC0415

    names = parquet.read_schema(file).names
    if lacking := [name for name in CLIENT_TEXT if name not in names]:
        raise ValueError(f"it has no column {lacking[0]}")
    table = parquet.ParquetFile(file, read_dictionary=CLIENT_TEXT)
    facts = table.metadata
    size = sum(facts.row_group(place).total_byte_size for place in range(facts.num_row_groups))
    if facts.num_rows > MOST_ROWS or size > MOST_BYTES:
        raise ValueError(f"it has {facts.num_rows} rows and {size} bytes, which is too large")
    for name, kind in types_in(table).items():
        if kind != type_of(name) and name in (*CLIENT_TEXT, *CLIENT_NUMBERS):
            raise ValueError(f"its column {name} holds values of the type {kind}")
    return table


def types_in(table: Any) -> dict[str, Any]:
    """Return the Arrow types of a table's columns by name."""
    import pyarrow as pa  # noqa: PLC0415

    return {
        field.name: field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        for field in table.schema_arrow
    }


def usable(table: Any) -> list[str]:
    """Return the columns of the type that they must have; another version may have others."""
    return [name for name, kind in types_in(table).items() if kind == type_of(name)]


def decoded(table: Any) -> Any:
    """Return an Arrow table with its texts, which the file holds once each, in every row.

    Raises:
        ValueError: they are too large.
    """
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import compute  # noqa: PLC0415

    size = 0
    for name in set(CLIENT_TEXT) & set(table.column_names):
        for part in table[name].chunks:
            lengths = compute.take(compute.binary_length(part.dictionary), part.indices)
            size += compute.sum(lengths).as_py() or 0
    if size > MOST_TEXT:
        raise ValueError(f"its text has {size} bytes, which is too large")
    return table.cast(pa.schema([(name, type_of(name)) for name in table.column_names]))
