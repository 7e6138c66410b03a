"""A section of a page: a heading with an explanation, charts and a table."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd

from univarfl.report.charts.base import Chart


@dataclass(frozen=True)
class Section:
    """What a page shows under one heading; one without charts and table is not shown.

    Attributes:
        title: the heading. The table's files have it as their name.
        note: says what is shown, and how to read it.
        charts: the charts, above the table.
        table: the table, as numbers or text.
    """

    title: str
    note: str = ""
    charts: Sequence[Chart] = ()
    table: pd.DataFrame = field(default_factory=pd.DataFrame)


def sections_of(charts: Iterable[Chart], notes: Mapping[str, str]) -> list[Section]:
    """Return the sections that charts name, with their explanations by title."""
    found: dict[str, list[Chart]] = {}
    for chart in charts:
        found.setdefault(chart.section, []).append(chart)
    return [Section(title, notes.get(title, ""), of) for title, of in found.items()]


def filled_tables(sections: Iterable[Section]) -> dict[str, pd.DataFrame]:
    """Return every table that is not empty, by title."""
    return {each.title: each.table for each in sections if len(each.table)}
