"""What ``univarfl analyse`` found of the runs, beside each other."""

from collections import defaultdict
from collections.abc import Iterator, Mapping

import pandas as pd

from server_app.analysis.analyse import MEASURES, SAMPLE, pictures_of, read_table
from server_app.analysis.base import Measure
from server_app.report.canvas import Picture
from server_app.report.records import RecordError, Run
from server_app.report.summary import CONFIDENCE, Summary, difference

Label = tuple[str, str]
DIFFERENCES = (
    "Minus the baseline's on the same seeds: mean, and Student's "
    f"{CONFIDENCE:.0%} interval of the mean."
)


class Analyses:
    """The tables of every measure, by setting and method.

    Args:
        summary: the runs.

    Attributes:
        problems: a line for each table that cannot be used.
        notes: by title, what a reader should know.
    """

    def __init__(self, summary: Summary) -> None:
        runs = summary.counted
        self._summary = summary
        self.problems: list[str] = []
        self.notes: dict[str, str] = {}
        self._found: dict[Measure, dict[Label, pd.DataFrame]] = {}
        for measure in MEASURES:
            read = {label: self._read(measure, of) for label, of in runs.items()}
            found = {label: pd.concat(tables) for label, tables in read.items() if tables}
            sizes = sorted({size for table in found.values() for size in table[SAMPLE]})
            if measure.sampled and len(sizes) > 1:
                told = " and ".join(map(str, sizes))
                self.problems.append(
                    f"{measure.name}: runs were analysed with --images {told}; do it again with one"
                )
            elif found:
                self._found[measure] = found
                most = f" At most {sizes[0]} images of each client and of the test set."
                first = " Each picture is of one run, a method's first seed."
                self.notes[measure.title] = (
                    measure.note
                    + (most if measure.sampled else "")
                    + ("" if measure.together else first)
                )

    def _read(self, measure: Measure, runs: list[Run]) -> list[pd.DataFrame]:
        tables = []
        for run in runs:
            try:
                table = read_table(measure, run)
            except RecordError as error:
                self.problems.append(f"{run.directory.name}: {error}; the run is there without it")
            else:
                tables += [table] if table is not None else []
        return tables

    def tables(self) -> dict[str, pd.DataFrame]:
        """By title, the tables of the measures that have one."""
        found = {}
        for measure, tables in self._found.items():
            settings = by_setting(tables)
            parts = {setting: measure.summarise(of) for setting, of in settings.items()}
            if all(len(part) for part in parts.values()):
                table = pd.concat(parts, names=["setting"]).reset_index("setting")
                found[measure.title] = table if len(parts) > 1 else table.drop(columns="setting")
        return found

    def differences(self, baseline: str | None = None) -> dict[str, pd.DataFrame]:
        """By title, each method's numbers minus the baseline's on the same two seeds or more."""
        found = {}
        for measure, tables in self._found.items():
            table = pd.DataFrame(self._compared(measure, tables, baseline))
            if len(table):
                one = table["setting"].nunique() == 1
                title = f"Paired differences in {measure.title.lower()}"
                found[title] = table.drop(columns="setting") if one else table
                self.notes[title] = DIFFERENCES
        return found

    def _compared(
        self, measure: Measure, tables: Mapping[Label, pd.DataFrame], baseline: str | None
    ) -> Iterator[dict[str, object]]:
        seeds = self._summary.frame.set_index("run")["seed"]
        for setting, of in by_setting(tables).items():
            name = baseline or self._summary.baseline(setting)
            numbers = {method: measure.by_run(table).rename(seeds) for method, table in of.items()}
            base = numbers.pop(name, pd.DataFrame())
            for method, own in numbers.items():
                pairs = (own - base).dropna(how="all")
                if len(pairs) > 1:
                    head = {"setting": setting, "method": method, "minus": name}
                    values = pairs.apply(difference, form=f"+{measure.form}")
                    yield {**head, "pairs": len(pairs), **values}

    def pictures(self) -> Iterator[Picture]:
        """Every measure's pictures: the methods of a setting, and a method's settings."""
        for measure, tables in self._found.items():
            for setting, of in by_setting(tables).items():
                yield from pictures_of(measure, setting, of)
            methods = by_method(tables)
            for method, of in methods.items():
                if measure.together and len(of) > 1:
                    yield from pictures_of(measure, f"{method}, by setting", of)


def by_setting(tables: Mapping[Label, pd.DataFrame]) -> dict[str, dict[str, pd.DataFrame]]:
    """Tables by setting, then by method."""
    found: dict[str, dict[str, pd.DataFrame]] = defaultdict(dict)
    for (setting, method), table in tables.items():
        found[setting][method] = table
    return found


def by_method(tables: Mapping[Label, pd.DataFrame]) -> dict[str, dict[str, pd.DataFrame]]:
    """Tables by method, then by setting."""
    return by_setting({(method, setting): table for (setting, method), table in tables.items()})
