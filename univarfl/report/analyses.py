"""The tables and charts of ``univarfl analyse``, of all runs together."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pandas as pd

from server_app.runs.records.parts import tables_of
from server_app.runs.records.tables import RecordError
from univarfl.analysis.analyse import MEASURES, SAMPLE, charts_of, read_table
from univarfl.analysis.base import Measure
from univarfl.records.published import LABELS, published_numbers
from univarfl.records.reader import Run
from univarfl.report.charts.base import Chart, Plot
from univarfl.report.section import Section
from univarfl.report.settings import ALL
from univarfl.report.statistics import CONFIDENCE, difference
from univarfl.report.summary import Summary

Label = tuple[str, str]
DIFFERENCES = (
    "The measure minus that of the baseline with the same seeds: mean and Student's "
    f"{CONFIDENCE:.0%} interval of the mean."
)


class Analyses:
    """The results of every measure, by setting and method.

    Args:
        summary: the runs.

    Attributes:
        problems: one line for each table that cannot be used.
    """

    def __init__(self, summary: Summary) -> None:
        runs = summary.counted
        self._summary = summary
        self.problems: list[str] = []
        self._notes: dict[Measure, str] = {}
        self._found: dict[Measure, dict[Label, pd.DataFrame]] = {}
        for measure in MEASURES:
            read = {label: self._read(measure, of) for label, of in runs.items()}
            found = {label: pd.concat(tables) for label, tables in read.items() if tables}
            sizes = sorted({size for table in found.values() for size in table[SAMPLE]})
            if measure.uses_images and len(sizes) > 1:
                counts = " and ".join(map(str, sizes))
                self.problems.append(
                    f"{measure.name}: runs were analysed with --images {counts}; repeat with one"
                )
            elif found:
                self._found[measure] = found
                most = f" Uses at most {sizes[0]} images of each client and of the test set."
                first = " Each chart shows one run: the first seed of a method."
                self._notes[measure] = (
                    measure.note
                    + (most if measure.uses_images else "")
                    + ("" if measure.compares_runs else first)
                )

    def _read(self, measure: Measure, runs: list[Run]) -> list[pd.DataFrame]:
        tables = []
        for run in runs:
            try:
                table = read_table(measure, run)
            except RecordError as error:
                self.problems.append(f"{run.directory.name}: {error}; the rest of the run is used")
            else:
                tables += [table] if table is not None else []
        return tables

    def sections(self, baseline: str | None) -> list[Section]:
        """Return each measure's charts and table, and each method's numbers minus the baseline's.

        Differences are those of two seeds or more.
        """
        tables, charts = self._tables(), self._charts()
        measured = [
            Section(
                measure.title, note, charts[measure], tables.get(measure, pd.DataFrame())
            )
            for measure, note in self._notes.items()
        ]  # fmt: skip
        compared = [
            Section(title, DIFFERENCES, table=table)
            for title, table in self._differences(baseline).items()
        ]
        return [*measured, *compared]

    def _tables(self) -> dict[Measure, pd.DataFrame]:
        """Return the tables of the measures that have one."""
        found = {}
        for measure, tables in self._found.items():
            settings = by_setting(tables)
            parts = {setting: measure.summarise(of) for setting, of in settings.items()}
            if all(len(part) for part in parts.values()):
                table = pd.concat(parts, names=["setting"]).reset_index("setting")
                labels = zip(table["setting"], table["method"], strict=True)
                beside = [published(measure, self._summary.counted[of][-1]) for of in labels]
                table = table.assign(published=beside) if any(beside) else table
                found[measure] = table if len(parts) > 1 else table.drop(columns="setting")
        return found

    def _differences(self, baseline: str | None) -> dict[str, pd.DataFrame]:
        """Return each method's numbers minus the baseline's, by title."""
        found = {}
        for measure, tables in self._found.items():
            table = pd.DataFrame(self._compared(measure, tables, baseline))
            if len(table):
                one = table["setting"].nunique() == 1
                title = f"Paired differences in {measure.title[0].lower()}{measure.title[1:]}"
                found[title] = table.drop(columns="setting") if one else table
        return found

    def _compared(
        self, measure: Measure, tables: Mapping[Label, pd.DataFrame], baseline: str | None
    ) -> Iterator[dict[str, object]]:
        seeds = self._summary.frame.set_index("run")["seed"]
        for setting, of in by_setting(tables).items():
            name = baseline or self._summary.baseline(setting)
            numbers = {
                method: measure.run_values(table).rename(seeds) for method, table in of.items()
            }
            base = numbers.pop(name, pd.DataFrame())
            for method, own in numbers.items():
                pairs = (own - base).dropna(how="all")
                if len(pairs) > 1:
                    head = {"setting": setting, "method": method, "minus": name}
                    values = pairs.apply(difference, form=f"+{measure.number_format}")
                    yield {**head, "pairs": len(pairs), **values}

    def _charts(self) -> dict[Measure, list[Chart]]:
        """Return every measure's charts: methods of one setting, and settings of one method."""
        methods = list(dict.fromkeys(method for _, method in self._summary.counted))
        found: dict[Measure, list[Chart]] = {}
        for measure, tables in self._found.items():
            drawn = found[measure] = []
            for setting, of in by_setting(tables).items():
                title = "" if setting == ALL else setting
                drawn += [restyled(chart, methods) for chart in charts_of(measure, title, of)]
            for method, of in by_method(tables).items():
                if measure.compares_runs and len(of) > 1:
                    drawn += charts_of(measure, f"{method}, by setting", of)
        return found


def published(measure: Measure, run: Run) -> str:
    """Return the published numbers of a measure for exactly the run's settings."""
    found = []
    for name, cell in published_numbers(run.config, tables_of(run.config)):
        kept = [of for of in measure.published if of in cell.further]
        if kept:
            numbers = ", ".join(f"{LABELS[of]} {cell.further[of]:g}" for of in kept)
            found.append(f"{numbers} ({name})")
    return "; ".join(found)


def restyled(chart: Chart, methods: Sequence[str]) -> Chart:
    """Return a chart in which a method has the same style as in the other charts of a report."""
    figure = chart.figure
    if not isinstance(figure, Plot) or not {one.name for one in figure.series} <= set(methods):
        return chart
    series = [replace(one, style=methods.index(one.name)) for one in figure.series]
    return replace(chart, figure=replace(figure, series=series))


def by_setting(tables: Mapping[Label, pd.DataFrame]) -> dict[str, dict[str, pd.DataFrame]]:
    """Return tables by setting, then by method."""
    found: dict[str, dict[str, pd.DataFrame]] = defaultdict(dict)
    for (setting, method), table in tables.items():
        found[setting][method] = table
    return found


def by_method(tables: Mapping[Label, pd.DataFrame]) -> dict[str, dict[str, pd.DataFrame]]:
    """Return tables by method, then by setting."""
    return by_setting({(method, setting): table for (setting, method), table in tables.items()})
