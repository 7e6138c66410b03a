"""The base class of measures, and how the tables of several runs are combined."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import ClassVar, NamedTuple

import pandas as pd

from server_app.config.tables import Further
from univarfl.analysis.analysed_run import AnalysedRun
from univarfl.report.charts.base import Figure, Plot, mean_series
from univarfl.report.statistics import all_equal, mean_and_sd

Tables = Mapping[str, pd.DataFrame]


class Drawing(NamedTuple):
    """The numbers of a chart, and its title."""

    title: str
    figure: Figure


class Measure(ABC):
    """One measure of a run's models.

    Attributes:
        name: its name on the command line, and the name of its CSV file.
        title: its heading in the report.
        note: what a reader of its tables and charts should know.
        columns: the columns of its table.
        text_columns: the columns that hold text instead of numbers.
        compares_runs: whether one chart shows several runs; else each shows one run.
        uses_images: whether its values depend on samples of images.
        published: the published numbers that are shown beside its values.
        number_format: the format of the values of `run_values`.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    note: ClassVar[str]
    columns: ClassVar[tuple[str, ...]]
    text_columns: ClassVar[tuple[str, ...]] = ()
    compares_runs: ClassVar[bool] = True
    uses_images: ClassVar[bool] = True
    published: ClassVar[tuple[Further, ...]] = ()
    number_format: ClassVar[str] = ".4g"

    def unmet_requirement(self, analysed: AnalysedRun) -> str:
        """Return what the run lacks for this measure; empty if it lacks nothing."""
        return ""

    @abstractmethod
    def measure(self, analysed: AnalysedRun) -> pd.DataFrame:
        """Return the table of a run, with the columns `columns`."""

    def draw(self, tables: Tables) -> Iterator[Drawing]:
        """Yield the charts of some tables.

        Args:
            tables: by label, the rows of one or more runs, with a column ``run``.
        """
        yield from ()

    def run_values(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return the values that summarise a table, one row per run; empty if there are none."""
        return pd.DataFrame()

    def summarise(self, tables: Tables) -> pd.DataFrame:
        """Return one row per label with values: number of runs, means and standard deviations."""
        values = {label: self.run_values(table) for label, table in tables.items()}
        return pd.DataFrame(
            {
                "method": label,
                "runs": len(numbers),
                **{name: format_values(numbers[name], self.number_format) for name in numbers},
            }
            for label, numbers in values.items()
            if len(numbers)
        )


def rows_of_last_round(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of each run's last measured round."""
    return table[table["round"] == table.groupby("run")["round"].transform("max")]


def draw_lines(
    tables: Tables, value: str, index: str, title: str, ylabel: str
) -> Iterator[Drawing]:
    """Yield a chart with one curve per table: a column against another, mean over runs.

    Yields nothing if all tables are empty.

    Args:
        tables: by label.
        value: the column on the y axis.
        index: the column of integers on the x axis.
        title: the title of the chart.
        ylabel: the label of the y axis.
    """
    series = []
    for style, (label, table) in enumerate(tables.items()):
        wide = table.pivot_table(value, "run", index).dropna(axis=1)
        if wide.size:
            series.append(mean_series(label, style, wide.columns.tolist(), wide.to_numpy()))
    if series:
        yield Drawing(title, Plot(index, ylabel, series, whole_x=True))


def format_values(values: "pd.Series[float]", form: str) -> str:
    """Return mean and standard deviation as text, or the mean alone if all values are equal."""
    return mean_and_sd(values[:1] if all_equal(values) else values, form)
