"""Your own rows of numbers: ``rows.csv`` or ``rows.parquet`` in a directory, and a schema.

The schema says what each column means, which one is the label, and who has a row. The columns that
it does not name are not read. Each row becomes one vector of float32: numbers, categories as one
column each, and flags as 0 or 1. A vector is kept as an image of one pixel, whose channels are its
numbers; so all that works on images by position works on vectors, too.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Literal, Self

import numpy as np
from PIL import Image

from task.config import MEASURED
from task.data.column_sums import number_columns
from task.data.sources.base import Blocks, DatasetIndex, Labels, Source
from task.data.sources.families.directory_source import DirectorySource, hash_of_states
from task.data.sources.families.encoding import encode, encode_labels
from task.data.sources.families.given_splits import split_notes, unlisted_note
from task.data.sources.families.labelled_rows import rows_for_testing
from task.data.sources.families.row_table import Cells, labelled, read_cells, table_in
from task.data.sources.families.schema import Schema
from task.data.sources.families.schema_file import NAMES, require_same, schema_in
from task.data.sources.families.tree import numbers_of
from task.errors import ConfigError, DataError, refuse
from task.registry import named

SEVERAL = "task.data.combinations:labels_of"  # of rows with several labels

Standardise = Literal["federated", "schema", "none"]
Role = Literal["simulation", "site", "coordinator"]


@dataclass
class Measured:
    """Mean and deviation of each column of numbers, over the rows of all clients."""

    __pydantic_config__: ClassVar = {"extra": "forbid", "allow_inf_nan": False}

    mean: list[float]
    deviation: list[float]


@dataclass
class Vectors(DirectorySource):
    """A directory with a table of numbers.

    Attributes:
        schema: the file of the schema; None for ``schema.yaml`` or ``schema.toml`` in `root`.
        schema_content: what the file has.
        standardise: what is done with numbers: ``federated`` subtracts the mean over the rows of
            all clients and divides by their deviation, ``schema`` takes both from the schema, and
            ``none`` leaves the numbers.
        test_share: the share of each class and client that is held out if no row is for testing.
        measured: with ``federated``, what the clients were asked for; None before that.
        role: whose rows they are: those of a simulation, of one site, or of a coordinator without.
    """

    dtype: ClassVar = "float32"
    unstored: ClassVar = (*Source.unstored, "schema", "standardise", MEASURED)
    looks_for_duplicates: ClassVar = True

    image_size: int = field(default=1, init=False)
    schema: str | None = field(kw_only=True)
    schema_content: Schema = field(kw_only=True)
    standardise: Standardise = field(kw_only=True)
    test_share: float = field(kw_only=True)
    measured: Measured | None = field(default=None, kw_only=True)
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
        if self.measured is not None:
            columns = len(number_columns(self.schema_content))
            lengths = {len(self.measured.mean), len(self.measured.deviation)}
            positive = all(value > 0 for value in self.measured.deviation)
            if not self.asks_clients or lengths != {columns} or not positive:
                refuse(self, MEASURED, "does not fit the schema and data.standardise")

    @property
    def asks_clients(self) -> bool:
        """Whether the clients are asked for the mean and deviation of their rows."""
        return self.standardise == "federated"

    @property
    def multilabel(self) -> bool:
        return self.schema_content.labels is not None

    def with_labels(self) -> Self:
        if not self.multilabel:
            allowed = (
                "needs a schema with labels, a list of columns, and data.schema has label, one "
                "class for each row; add task=classes, or change the schema"
            )
            raise ConfigError("task", "multilabel", allowed)
        return self

    @property
    def channels(self) -> int:  # type: ignore[override]
        """The length of a vector."""
        return len(self.schema_content.encoded)

    @property
    def mean_and_std(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """What is subtracted from each number of a vector, and what divides it then."""
        encoded = self.schema_content.encoded
        mean, deviation = np.zeros(len(encoded)), np.ones(len(encoded))
        numbers = [place for place, each in enumerate(encoded) if each.number]
        mean[numbers], deviation[numbers] = self._constants()
        return tuple(mean.tolist()), tuple(deviation.tolist())

    def _constants(self) -> tuple[list[float], list[float]]:
        """Return mean and deviation of each column of numbers; 0 and 1 if they stay as they are."""
        columns = number_columns(self.schema_content)
        if self.measured is not None:
            return self.measured.mean, self.measured.deviation
        if self.standardise != "schema":
            return [0.0] * len(columns), [1.0] * len(columns)
        return [column.mean or 0.0 for column in columns], [
            column.deviation or 1.0 for column in columns
        ]

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
            return nothing(schema)
        if self.role == "site":
            require_same(self._own_schema(), schema)
        table = table_in(self.directory)
        others = [name for name in (schema.client, schema.subject, schema.split) if name]
        names = [*schema.label_columns, *(column.name for column in schema.columns)]
        cells = read_cells(table, [*names, *others])
        rows, notes = labelled(cells, schema)
        numbers = encode(schema, cells.columns, cells.place)[:, None, None, :]
        found = labels_of(cells, schema, [row.label for row in rows])
        clients = [row.domain for row in rows]
        return DatasetIndex(
            classes=tuple(schema.classes),
            labels=found.labels,
            test=rows_for_testing(table, rows, self.test_share),
            read=no_image,
            name=lambda index: f"row {cells.lines[index]}",
            domains=tuple(sorted(set(clients))),
            domain_of=numbers_of(clients),
            notes=[
                *split_notes([row.split for row in rows]),
                *found.notes,
                *notes,
            ],
            blocks=Blocks(1, lambda _: numbers),
            subject_of=numbers_of([row.subject for row in rows]) if schema.subject else None,
            targets=found.targets,
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


def no_image(index: int) -> Image.Image:
    """Refuse to open a row as an image; rows are computed in blocks.

    Raises:
        DataError: always.
    """
    raise DataError(f"row {index} is no image")


def labels_of(cells: Cells, schema: Schema, names: Sequence[str]) -> Labels:
    """Return the labels of all rows.

    Args:
        cells: the table.
        schema: says which columns have them.
        names: the class of each row, if it has one.

    Raises:
        DataError: a cell is neither yes nor no.
    """
    classes = schema.classes
    if schema.label is None:
        targets = encode_labels(classes, cells.columns, cells.place)
        found: Labels = named(SEVERAL)(classes, targets)
        return found
    number = {name: index for index, name in enumerate(classes)}
    labels = np.array([number[name] for name in names], dtype=np.int64)
    return Labels(labels, None, unlisted_note(classes, names))


def nothing(schema: Schema) -> DatasetIndex:
    """Return the index of no rows, for a coordinator whose sites have all of them."""
    classes, none = tuple(schema.classes), np.zeros(0, dtype=np.int64)
    targets = None if schema.label else np.zeros((0, len(classes)), dtype=np.uint8)
    return DatasetIndex(
        classes, none, none.astype(np.bool_), no_image, str, ("",), none, targets=targets
    )
