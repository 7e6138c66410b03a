"""The writer of ``clients.parquet``, which replaces a long ``clients.csv``.

A run appends to ``clients.csv``. When it is completed and has more than `MOST_ROWS_AS_CSV` rows,
the table is rewritten as ``clients.parquet``, and ``clients.csv`` is deleted last. So
``clients.csv`` is complete as long as it exists, and readers prefer it.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from server_app.runs.records.clients.reading import type_of, with_numbers
from server_app.runs.records.csv_files import restore
from server_app.runs.records.tables import CLIENT_COLUMNS, CLIENT_TEXT, CLIENTS, PARQUET
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
