"""Your own rows of numbers: ``rows.csv`` or ``rows.parquet`` in a directory, and a schema.

The schema says what each column means, which one is the label, and who has a row. The columns that
it does not name are not read. Each row becomes one vector of float32: numbers, categories as one
column each, and flags as 0 or 1. A vector is kept as an image of one pixel, whose channels are its
numbers; so all that works on images by position works on vectors, too.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Literal, Self

import numpy as np
from PIL import Image

from task.data.sources.base import Blocks, DatasetIndex, Source
from task.data.sources.families.directory_source import DirectorySource, hash_of_states
from task.data.sources.families.encoding import encode
from task.data.sources.families.given_splits import split_notes, unlisted_note
from task.data.sources.families.labelled_rows import rows_for_testing
from task.data.sources.families.row_table import labelled, read_cells, table_in
from task.data.sources.families.schema import Schema
from task.data.sources.families.schema_file import NAMES, require_same, schema_in
from task.data.sources.families.tree import numbers_of
from task.errors import DataError, refuse

Standardise = Literal["schema", "none"]
Role = Literal["simulation", "site", "coordinator"]


@dataclass
class Vectors(DirectorySource):
    """A directory with a table of numbers.

    Attributes:
        schema: the file of the schema; None for ``schema.yaml`` or ``schema.toml`` in `root`.
        schema_content: what the file has.
        standardise: what is done with numbers: ``schema`` subtracts the mean that the schema has
            and divides by its deviation; ``none`` leaves them.
        test_share: the share of each class and client that is held out if no row is for testing.
        role: whose rows they are: those of a simulation, of one site, or of a coordinator without.
    """

    dtype: ClassVar = "float32"
    looks_for_duplicates: ClassVar = True

    image_size: int = field(default=1, init=False)
    schema: str | None = field(kw_only=True)
    schema_content: Schema = field(kw_only=True)
    standardise: Standardise = field(kw_only=True)
    test_share: float = field(kw_only=True)
    role: Role = field(default="simulation", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.test_share <= 1:
            refuse(self, "test_share", "must be from 0 to 1")
        if self.normalisation != "own":
            refuse(self, "normalisation", "is for images; rows have data.standardise")
        for column in self.schema_content.columns:
            if self.standardise == "none" and column.missing == "mean":
                allowed = f"must not be none: {column.name} of the schema has missing: mean"
                refuse(self, "standardise", allowed)
            stated = column.mean is not None and column.deviation is not None
            if self.standardise == "schema" and column.type == "number" and not stated:
                allowed = f"needs mean and deviation of {column.name} in the schema"
                refuse(self, "standardise", allowed)

    @property
    def channels(self) -> int:  # type: ignore[override]
        """The length of a vector."""
        return len(self.schema_content.encoded)

    @property
    def mean_and_std(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """What is subtracted from each number of a vector, and what divides it then."""
        encoded = self.schema_content.encoded
        if self.standardise == "none":
            return (0.0,) * len(encoded), (1.0,) * len(encoded)
        mean = [each.column.mean if each.number else 0.0 for each in encoded]
        deviation = [each.column.deviation if each.number else 1.0 for each in encoded]
        return tuple(map(float, filter_none(mean))), tuple(map(float, filter_none(deviation)))

    def check_files(self) -> None:
        if self.role != "coordinator":
            super().check_files()

    def fingerprint(self) -> str:
        if self.role == "coordinator":
            return ""
        found = [table_in(self.directory)]
        if self.role == "site":
            found.append(self._own_schema())
        return hash_of_states((path.name, path.stat()) for path in found)

    def dataset_index(self) -> DatasetIndex:
        schema = self.schema_content
        if self.role == "coordinator":
            return nothing(schema.label.classes)
        if self.role == "site":
            require_same(self._own_schema(), schema)
        table = table_in(self.directory)
        others = [name for name in (schema.client, schema.subject, schema.split) if name]
        names = [schema.label.name, *(column.name for column in schema.columns)]
        cells = read_cells(table, [*names, *others])
        rows, notes = labelled(cells, schema)
        numbers = encode(schema, cells.columns, cells.place)[:, None, None, :]
        classes, labels = schema.label.classes, [row.label for row in rows]
        number = {name: index for index, name in enumerate(classes)}
        clients = [row.domain for row in rows]
        return DatasetIndex(
            classes=tuple(classes),
            labels=np.array([number[label] for label in labels], dtype=np.int64),
            test=rows_for_testing(table, rows, self.test_share),
            read=no_image,
            name=lambda index: f"row {cells.lines[index]}",
            domains=tuple(sorted(set(clients))),
            domain_of=numbers_of(clients),
            notes=[
                *split_notes([row.split for row in rows]),
                *unlisted_note(classes, labels),
                *notes,
            ],
            blocks=Blocks(1, lambda _: numbers),
            subject_of=numbers_of([row.subject for row in rows]) if schema.subject else None,
        )

    def at_site(self, directory: str) -> Self:
        return replace(self, root=directory, schema=None, test_share=0.0, role="site")

    def at_coordinator(self) -> Source:
        return self if self.root else replace(self, role="coordinator")

    def _own_schema(self) -> Path:
        """Return a site's own schema, which its owner has put beside the table.

        Raises:
            DataError: there is none.
        """
        path = schema_in(self.directory)
        if path is None:
            raise DataError(
                f"{self.directory}: no {' or '.join(NAMES)}; the owner of the rows puts the schema "
                "there that the experiment may use"
            )
        return path


def filter_none(values: list[float | None]) -> list[float]:
    """Return values of which none is missing, as `Vectors` has checked."""
    return [value for value in values if value is not None]


def no_image(index: int) -> Image.Image:
    """Refuse to open a row as an image; rows are computed in blocks.

    Raises:
        DataError: always.
    """
    raise DataError(f"row {index} is no image")


def nothing(classes: list[str]) -> DatasetIndex:
    """Return the index of no rows, for a coordinator whose sites have all of them."""
    none = np.zeros(0, dtype=np.int64)
    return DatasetIndex(tuple(classes), none, none.astype(np.bool_), no_image, str, ("",), none)
