"""What ``univarfl analyse`` found of the runs, beside each other."""

from collections import defaultdict
from collections.abc import Iterator, Mapping

import pandas as pd

from server_app.analysis.analyse import MEASURES, SAMPLE, pictures_of, read_table
from server_app.analysis.base import Measure
from server_app.report.canvas import Picture
from server_app.report.records import Run

Label = tuple[str, str]


class Analyses:
    """The tables of every measure, by setting and method.

    Args:
        runs: by setting and method, the runs that count.

    Attributes:
        problems: a line for each table that cannot be used.
        notes: by title, what a reader should know.
    """

    def __init__(self, runs: Mapping[Label, list[Run]]) -> None:
        self.problems: list[str] = []
        self.notes: dict[str, str] = {}
        self._found: dict[Measure, dict[Label, pd.DataFrame]] = {}
        for measure in MEASURES:
            read = {label: self._read(measure, of) for label, of in runs.items()}
            found = {label: pd.concat(tables) for label, tables in read.items() if tables}
            sizes = sorted({size for table in found.values() for size in table[SAMPLE]})
            if measure.sampled and len(sizes) > 1:
                told = " and ".join(map(str, sizes))
                self.problems.append(f"{measure.name}: runs were analysed with --images {told}")
            elif found:
                self._found[measure] = found
                most = f" At most {sizes[0]} images of each client and of the test set."
                self.notes[measure.title] = measure.note + (most if measure.sampled else "")

    def _read(self, measure: Measure, runs: list[Run]) -> list[pd.DataFrame]:
        tables = []
        for run in runs:
            try:
                table = read_table(measure, run)
            except (OSError, ValueError) as error:
                self.problems.append(f"{run.directory.name}: {error}")
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
