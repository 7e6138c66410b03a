"""What a measure is, and how those of several runs are shown together."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import ClassVar, NamedTuple

import pandas as pd
from matplotlib.figure import Figure

from server_app.analysis.subject import Subject

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
        together: whether its pictures hold several runs; else each shows a single one.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    note: ClassVar[str]
    columns: ClassVar[tuple[str, ...]]
    together: ClassVar[bool] = True

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

    def summarise(self, tables: Tables) -> pd.DataFrame:
        """A row a label; empty for a measure that is better seen."""
        return pd.DataFrame()
