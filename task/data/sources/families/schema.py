"""The schema of a table of numbers: its columns, its label, and who has each row."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Literal, NamedTuple, NoReturn

from task.data.sources.base import cleaned
from task.errors import ConfigError
from task.registry import Names

KEY = "schema"
MOST_COLUMNS = 100_000  # of the rows that a network gets
LARGEST = 1e30  # of a number; float32 holds its square's sums only in fixed point

Kind = Literal["number", "category", "flag"]
Missing = Literal["refuse", "indicator", "mean"]


class Encoded(NamedTuple):
    """One number of the rows that a network gets.

    Attributes:
        name: such as ``age``, ``colour=red`` or ``age missing``.
        column: the column of the table.
        number: whether it is the column's value, which is standardised.
    """

    name: str
    column: "Column"
    number: bool


@dataclass
class Column:
    """One column of the table.

    Attributes:
        name: that of the table's first line.
        type: ``number``; ``category``, one of `categories`; ``flag``, yes or no.
        unit: of a number, for people.
        low: the smallest number that is allowed.
        high: the largest number that is allowed.
        categories: the allowed values of a category.
        missing: what an empty cell is: ``refuse`` ends; ``indicator`` adds a column that says so;
            ``mean`` takes the mean of the column, for numbers alone.
        mean: of a number, for ``data.standardise=schema``.
        deviation: its standard deviation, likewise.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid", "allow_inf_nan": False}

    name: str
    type: Kind
    unit: str | None = None
    low: float | None = None
    high: float | None = None
    categories: Names | None = None
    missing: Missing = "refuse"
    mean: float | None = None
    deviation: float | None = None

    def __post_init__(self) -> None:
        check_name(self.name)
        if self.unit is not None and not self.unit.isprintable():
            self._refuse("unit", "must have only characters that can be printed")
        of_numbers: dict[str, object] = {"low": self.low, "high": self.high}
        if self.type != "number":
            of_numbers |= {"unit": self.unit, "mean": self.mean, "deviation": self.deviation}
            for key, value in of_numbers.items():
                if value is not None:
                    self._refuse(key, f"is for numbers, and this is a {self.type}; leave it out")
            if self.missing == "mean":
                self._refuse("missing", f"must be refuse or indicator for a {self.type}")
        else:
            self._check_number()
        if self.type == "category":
            self._check_categories()
        elif self.categories is not None:
            self._refuse("categories", f"are for type: category, and this is a {self.type}")

    def encoded(self) -> Iterator[Encoded]:
        """Yield the numbers that a network gets for this column."""
        if self.type == "category":
            for value in self.categories or ():
                yield Encoded(f"{self.name}={value}", self, number=False)
        else:
            yield Encoded(self.name, self, number=self.type == "number")
        if self.missing == "indicator":
            yield Encoded(f"{self.name} missing", self, number=False)

    def _check_number(self) -> None:
        if self.low is None or self.high is None:
            self._refuse("low" if self.low is None else "high", "is needed for a number")
        if not -LARGEST <= self.low < self.high <= LARGEST:
            self._refuse("high", f"must be above low, and both within {LARGEST:g}")
        if self.deviation is not None and self.deviation <= 0:
            self._refuse("deviation", "must be above 0")

    def _check_categories(self) -> None:
        values = self.categories = [cleaned(value) for value in self.categories or ()]
        if len(values) < 2 or len(set(values)) < len(values):
            self._refuse("categories", "must be two or more different values")
        for value in values:
            check_name(value)

    def _refuse(self, key: str, allowed: str) -> NoReturn:
        raise ConfigError(KEY, f"{self.name}.{key}", allowed)


@dataclass
class Label:
    """The column with the class of each row.

    Attributes:
        name: that of the column.
        classes: the names of the classes, in the order of their numbers.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    name: str
    classes: Names

    def __post_init__(self) -> None:
        check_name(self.name)
        self.classes = [cleaned(name) for name in self.classes]
        if len(set(self.classes)) < max(2, len(self.classes)):
            raise ConfigError(KEY, "label.classes", "must be at least two different names")
        for name in self.classes:
            check_name(name)


@dataclass
class Schema:
    """What the rows of a table mean; all clients of an experiment have the same.

    Attributes:
        columns: the columns that a network learns from.
        label: the column with the class of each row; None if rows have `labels`.
        labels: of rows with any number of labels, the column of each: yes or no.
        client: the column that says who has a row, such as a hospital; None if there is none.
        subject: the column of the patient or object that a row describes.
        split: the column with ``train``, ``val`` or ``test``.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    columns: list[Column]
    label: Label | None = None
    labels: Names | None = None
    client: str | None = None
    subject: str | None = None
    split: str | None = None

    def __post_init__(self) -> None:
        if not self.columns:
            raise ConfigError(KEY, "columns", "must list at least one column")
        if (self.label is None) == (self.labels is None):
            allowed = "is needed, the column of the class, or else labels, a list of columns"
            raise ConfigError(KEY, "label", allowed)
        if self.labels is not None:
            self.labels = [cleaned(name) for name in self.labels]
            if len(self.labels) < 2:
                allowed = "must be two columns or more; for one, use label with classes: [no, yes]"
                raise ConfigError(KEY, "labels", allowed)
            for name in self.labels:
                check_name(name)
        others = filter(None, (self.client, self.subject, self.split))
        names = sorted([each.name for each in self.columns] + [*self.label_columns, *others])
        for first, second in pairwise(names):
            if first == second:
                raise ConfigError(KEY, first, "is there twice; give each column one meaning")
        if len(self.encoded) > MOST_COLUMNS:
            raise ConfigError(KEY, "columns", f"must give at most {MOST_COLUMNS} numbers a row")

    @property
    def classes(self) -> list[str]:
        """The names of the classes, or of the labels, in the order of their numbers."""
        return self.label.classes if self.label else self.labels or []

    @property
    def label_columns(self) -> list[str]:
        """The names of the columns with the class, or with the labels."""
        return [self.label.name] if self.label else self.labels or []

    @property
    def encoded(self) -> list[Encoded]:
        """The numbers of a row, in their order."""
        return [number for column in self.columns for number in column.encoded()]


def check_name(name: str) -> None:
    """Refuse a name that cannot be that of a column, category or class.

    Raises:
        ConfigError: it is empty, has blanks around it, or cannot be printed.
    """
    if not name or not name.isprintable() or name != cleaned(name):
        allowed = "each name needs characters that can be printed, and no blanks around them"
        raise ConfigError(KEY, repr(name), allowed)
