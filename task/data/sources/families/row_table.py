"""The cells of a table of numbers: ``rows.csv`` or ``rows.parquet`` in a directory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from task.data.sources.families.directory_source import require_file
from task.data.sources.families.labelled_rows import Row, checked_row, clean_names
from task.data.sources.families.names import text_of
from task.data.sources.families.rows import read_rows
from task.data.sources.families.schema import Schema
from task.errors import DataError, system_reason

CSV, PARQUET = "rows.csv", "rows.parquet"
CURE = "write the rows into this table, with the columns of the schema"


@dataclass(frozen=True)
class Cells:
    """The texts of a table.

    Attributes:
        path: the file.
        lines: of each row in the file; of Parquet, its number from 1.
        columns: the texts of each wanted column that the table has, by its name.
    """

    path: Path
    lines: Sequence[int]
    columns: Mapping[str, Sequence[str]]

    def place(self, row: int) -> str:
        """Return where a row is, for messages."""
        return f"{self.path}, {'row' if is_parquet(self.path) else 'line'} {self.lines[row]}"


def is_parquet(path: Path) -> bool:
    """Return whether a file is Parquet by its name."""
    return path.suffix.lower() == ".parquet"


def table_in(directory: Path) -> Path:
    """Return the file of the table in a directory.

    Raises:
        DataError: there is none, or there are two.
    """
    both = [directory / name for name in (CSV, PARQUET) if (directory / name).exists()]
    if len(both) > 1:
        raise DataError(f"{directory}: has {CSV} and {PARQUET}; remove one of them")
    return require_file(both[0] if both else directory / CSV, CURE)


def read_cells(path: Path, needed: Sequence[str], optional: Sequence[str] = ()) -> Cells:
    """Read some columns of a table as text; the case of their names does not count.

    Args:
        path: the table, CSV or Parquet.
        needed: names of columns that must be there.
        optional: names of columns that can be there.

    Raises:
        DataError: it is not such a table, or has no rows.
        OSError: it cannot be read.
    """
    if is_parquet(path):
        return read_parquet(path, needed, optional)
    found = list(read_rows(path, needed, optional, CURE))
    if not found:
        raise DataError(f"{path}: has no rows; {CURE}")
    columns = {name: [values[name] for _, values in found] for name in found[0][1]}
    return Cells(path, [line for line, _ in found], columns)


def read_parquet(path: Path, needed: Sequence[str], optional: Sequence[str]) -> Cells:
    """Read some columns of a Parquet file as text; a null is an empty text."""
    # Imported here because it takes half a second, and few tables need it.
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import parquet  # noqa: PLC0415

    try:
        file = parquet.ParquetFile(path)
        by_name = {name.lower(): name for name in file.schema_arrow.names}
        if missing := [name for name in needed if name.lower() not in by_name]:
            raise DataError(f"{path}: no column {', '.join(missing)}; {CURE}")
        wanted = [name for name in (*needed, *optional) if name.lower() in by_name]
        table = file.read(columns=[by_name[name.lower()] for name in wanted])
    except pa.ArrowInvalid as error:
        raise DataError(f"{path}: cannot be read: {str(error).splitlines()[0]}") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {system_reason(error)}") from None
    if not table.num_rows:
        raise DataError(f"{path}: has no rows; {CURE}")
    columns = {
        name: as_texts(column.to_pylist())
        for name, column in zip(wanted, table.columns, strict=True)
    }
    return Cells(path, range(1, table.num_rows + 1), columns)


def as_texts(cells: Sequence[object]) -> list[str]:
    """Return cells as text; those that are missing are empty."""
    return [text_of(cell) or "" for cell in cells]


def labelled(cells: Cells, schema: Schema) -> tuple[list[Row], list[str]]:
    """Return the label, client, subject and split of each row, and notes on them.

    Raises:
        DataError: a label, client or subject is missing, or a label is no class of the schema.
    """
    meaning = {
        "label": schema.label.name if schema.label else None,
        "split": schema.split,
        "domain": schema.client,
        "subject": schema.subject,
    }
    used = {key: cells.columns[name] for key, name in meaning.items() if name is not None}
    found = [
        (line, {"image": f"row {line}", **dict(zip(used, values, strict=True))})
        for line, *values in zip(cells.lines, *used.values(), strict=True)
    ]
    notes = clean_names(cells.path, found)
    rows = [checked_row(cells.path, line, values) for line, values in found]
    for row in rows if schema.label else ():
        if row.label not in schema.classes:
            known = f"the schema's classes are {', '.join(schema.classes)}"
            raise DataError(f"{cells.path}, line {row.line}: label {row.label!r}, but {known}")
    return rows, notes
