"""What a measure is, and how those of several runs are shown together."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import ClassVar, NamedTuple

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from server_app.analysis.subject import Subject
from server_app.report.canvas import blank, finish, line
from server_app.report.summary import alike, mean_and_sd

Tables = Mapping[str, pd.DataFrame]


class Drawing(NamedTuple):
    """A picture and what it shows."""

    title: str
    figure: Figure


class Measure(ABC):
    """One kind of look at a run's models.

    Attributes:
        name: its table's file, and what it is called by.
        title: its heading.
        note: what a reader of its tables and pictures should know.
        columns: its table's.
        words: those of them that hold no numbers.
        together: whether its pictures hold several runs; else each shows a single one.
        sampled: whether it looks at samples of images, whose size then matters.
        form: how the numbers of `by_run` are written.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    note: ClassVar[str]
    columns: ClassVar[tuple[str, ...]]
    words: ClassVar[tuple[str, ...]] = ()
    together: ClassVar[bool] = True
    sampled: ClassVar[bool] = True
    form: ClassVar[str] = ".4g"

    def missing(self, subject: Subject) -> str:
        """What a run would have to have, if this cannot be measured of it."""
        return ""

    @abstractmethod
    def measure(self, subject: Subject) -> pd.DataFrame:
        """Measure a run; the table has `columns`."""

    def draw(self, tables: Tables) -> Iterator[Drawing]:
        """Pictures of tables.

        Args:
            tables: by label, those of one or several runs, told apart by their column ``run``.
        """
        yield from ()

    def by_run(self, table: pd.DataFrame) -> pd.DataFrame:
        """The numbers that sum it up: a row a run, by its name; none where a picture says more."""
        return pd.DataFrame()

    def summarise(self, tables: Tables) -> pd.DataFrame:
        """A row a label that has numbers: how many runs, and their means and deviations."""
        found = {label: self.by_run(table) for label, table in tables.items()}
        return pd.DataFrame(
            {
                "method": label,
                "runs": len(numbers),
                **{name: told(numbers[name], self.form) for name in numbers},
            }
            for label, numbers in found.items()
            if len(numbers)
        )


def last_kept(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of each run's last round that a measure found."""
    return table[table["round"] == table.groupby("run")["round"].transform("max")]


def lines(tables: Tables, value: str, index: str, title: str, ylabel: str) -> Iterator[Drawing]:
    """A column over another that counts, each table's mean over its runs; none of empty tables.

    Args:
        tables: by label.
        value: the column that is shown.
        index: the column that counts.
        title: the picture's.
        ylabel: what the values are.
    """
    figure, axes = blank()
    for label, table in tables.items():
        wide = table.pivot_table(value, "run", index).dropna(axis=1)
        if wide.size:
            line(axes, wide.columns.to_numpy(), wide.to_numpy(), label, list(tables))
    axes.set(xlabel=index, ylabel=ylabel)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    if finish(axes):
        yield Drawing(title, figure)


def told(values: "pd.Series[float]", form: str) -> str:
    """Mean and deviation, or the mean alone where all values are the same."""
    return mean_and_sd(values[:1] if alike(values) else values, form)
