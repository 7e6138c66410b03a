"""The writer of ``clients.parquet``, which replaces a long ``clients.csv``.

A run appends to ``clients.csv``. When it is completed and has more than `MOST_ROWS_AS_CSV` rows,
the table is rewritten as ``clients.parquet``, and ``clients.csv`` is deleted last. So
``clients.csv`` is complete as long as it exists, and readers prefer it.
"""

import itertools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from server_app.runs.records.csv_files import restore
from server_app.runs.records.tables import (
    CLIENT_COLUMNS,
    CLIENT_COUNTS,
    CLIENT_NUMBERS,
    CLIENT_TEXT,
    CLIENTS,
    PARQUET,
)
from task.machine.files import draft_of

if TYPE_CHECKING:
    import pandas as pd

ROWS_AT_ONCE = 100_000  # of a table that is rewritten, and of a row group of the new file


def compact(directory: Path) -> None:
    """Write ``clients.parquet`` beside ``clients.csv``.

    Raises:
        OSError: it cannot be written; nothing has changed.
        ValueError: ``clients.csv`` is damaged; nothing has changed.
    """
    source = directory / CLIENTS
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import parquet  # noqa: PLC0415

    parts = frames_of(source)
    first = next(parts)
    schema = pa.schema([(name, type_of(name)) for name in first.columns])
    repeated = [name for name in first.columns if name in CLIENT_COLUMNS]
    losses = [name for name in first.columns if name not in CLIENT_COLUMNS]
    with (
        draft_of(directory / PARQUET) as draft,
        parquet.ParquetWriter(
            draft, schema, compression="zstd", use_dictionary=repeated, use_byte_stream_split=losses
        ) as file,
    ):
        for part in itertools.chain([first], parts):
            file.write_table(pa.Table.from_pandas(part, schema, preserve_index=False))


def frames_of(path: Path) -> Iterator["pd.DataFrame"]:
    """Yield ``clients.csv`` in parts of `ROWS_AT_ONCE` rows.

    Raises:
        OSError, ValueError: it cannot be read, or is not CSV.
    """
    import pandas as pd  # noqa: PLC0415

    types = dict.fromkeys(CLIENT_TEXT, "str")
    with pd.read_csv(
        path, keep_default_na=False, na_values=[""], dtype=types, chunksize=ROWS_AT_ONCE
    ) as parts:
        for part in parts:
            yield with_numbers(restore(part))


def with_numbers(frame: "pd.DataFrame") -> "pd.DataFrame":
    """Return a table in which all columns but those of text are numbers.

    A column that this version does not know may be text, too.

    Raises:
        ValueError: a cell is not a number.
    """
    import pandas as pd  # noqa: PLC0415

    for name in frame.columns.difference(CLIENT_TEXT):
        found = frame[name]
        if not pd.api.types.is_numeric_dtype(found):
            found = found.replace("nan", math.nan)  # pandas takes the text of a NaN for text
        try:
            numbers = pd.to_numeric(found)
        except (TypeError, ValueError) as error:
            if name not in CLIENT_NUMBERS:
                continue
            raise ValueError(f"column {name}: {error}") from None
        frame[name] = numbers if name in CLIENT_COUNTS else numbers.astype(float)
    return frame


def type_of(column: str) -> Any:
    """Return the Arrow type of a column."""
    import pyarrow as pa  # noqa: PLC0415

    if column in CLIENT_TEXT:
        return pa.string()
    return pa.int64() if column in CLIENT_COUNTS else pa.float64()
