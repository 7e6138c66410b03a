"""The comparison of two runs, each with its seeds: settings, accuracy, curves, a paired test."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pandas as pd
from scipy import stats

from server_app.config.differences import deciding
from server_app.config.override_text import as_typed
from task.errors import ConfigError
from task.machine.files import draft_of
from univarfl.records.labels import label_of
from univarfl.records.reader import UNSCORED, Run, read_runs
from univarfl.records.trained import completed_run
from univarfl.report.breakdown.by_client import spreads
from univarfl.report.charts.draw import STYLE, drawn
from univarfl.report.charts.of_runs import accuracy_plot
from univarfl.report.comparability import different_code
from univarfl.report.readings import EXACT, LAST, READINGS, readings
from univarfl.report.spent.amounts import has_simulated_time
from univarfl.report.spent.targets import compared
from univarfl.report.statistics import CONFIDENCE, all_equal, interval, mean_and_sd, span

SEED = "seed"
Settings = dict[str, Any]


@dataclass(frozen=True)
class Comparison:
    """Two runs, each with the completed runs beside it that differ in the seed alone.

    Attributes:
        first: the runs of the first, one for each seed; the run that was named counts for its own.
        second: those of the second.
    """

    first: Sequence[Run]
    second: Sequence[Run]

    @cached_property
    def names(self) -> tuple[str, str]:
        """What to call the two in a picture: the settings that differ, else the directories."""
        rows = self.settings()
        if not rows or len(rows) > 3:
            return self.first[0].directory.name, self.second[0].directory.name
        one, other = (
            ", ".join(setting_in_words(row[0], row[place]) for row in rows) for place in (1, 2)
        )
        return one, other

    def settings(self) -> list[tuple[str, str, str]]:
        """Return the settings that differ, with both values; "-" where there is no such setting."""
        one, other = (settings_of(runs[0]) for runs in (self.first, self.second))
        return [
            (key, shown(one, key), shown(other, key))
            for key in dict.fromkeys([*one, *other])
            if one.get(key, ...) != other.get(key, ...)
        ]

    def accuracies(self) -> Iterator[tuple[str, str, str]]:
        """Yield each reading of accuracy in %, as mean and standard deviation over the seeds."""
        one, other = (frame_of(runs) for runs in (self.first, self.second))
        splits = " and ".join(self.splits)
        for reading in READINGS:
            name = reading if len(set(self.splits)) == 1 else f"{reading} ({splits})"
            yield name, mean_and_sd(100 * one[reading]), mean_and_sd(100 * other[reading])

    def paired_tests(self) -> list[str]:
        """Return `paired_test` of the last round, and of `EXACT` if both have that reading."""
        found = [self.paired_test()]
        frames = [frame_of(runs)[EXACT] for runs in (self.first, self.second)]
        if len(set(self.splits)) == 1 and all(frame.notna().any() for frame in frames):
            found.append(self.paired_test(EXACT))
        return found

    def paired_test(self, reading: str = LAST) -> str:
        """Return the difference over the seeds that both have, with interval and p-value.

        If one is scored on the test set and the other with the clients' own models, it is that of
        the mean accuracy at the clients.
        """
        if self.first[0].record.data_version != self.second[0].record.data_version:
            return "the two were trained on different images, so no paired difference is computed"
        one, other, of = self._compared(reading)
        pairs = (100 * (other - one)).dropna()
        if not len(pairs):
            reason = f"no seed in common that has the {of}"
            return f"the two have {reason}, so no paired difference can be computed"
        seeds = f"{len(pairs)} seed{'s' if len(pairs) > 1 else ''}"
        mean = f"second - first, {of}: {pairs.mean():+.1f} points over {seeds}"
        if len(pairs) == 1:
            return f"{mean}; a paired test needs runs of two seeds or more"
        if all_equal(pairs):
            return f"{mean}, the same for each seed"
        p = float(stats.ttest_1samp(pairs, 0.0).pvalue)
        certain = "significant" if p < 1 - CONFIDENCE else "not significant"
        return f"{mean}, {CONFIDENCE:.0%} {interval(pairs)}; paired t-test p = {p:.3f}, {certain}"

    def warnings(self) -> list[str]:
        """Return what makes the two hard to compare."""
        runs = [*self.first, *self.second]
        return [*different_code(runs), *different_lengths(runs)]

    def times(self) -> list[str]:
        """Return lines on the simulated time until a target; none without a virtual clock."""
        timed = all(map(has_simulated_time, [*self.first, *self.second]))
        same = len(set(self.splits)) == 1
        return list(compared(self.first, self.second)) if timed and same else []

    @property
    def splits(self) -> tuple[str, str]:
        """The splits on which the two are scored."""
        return self.first[0].split, self.second[0].split

    def _compared(self, reading: str) -> tuple["pd.Series[float]", "pd.Series[float]", str]:
        """Return the values of both by seed, and what they are."""
        if len(set(self.splits)) == 1:
            one, other = (frame_of(runs)[reading] for runs in (self.first, self.second))
            return one, other, reading
        found = [spreads(runs).reindex(columns=["mean"]) for runs in (self.first, self.second)]
        return found[0]["mean"], found[1]["mean"], "mean accuracy at the clients"

    def draw(self, path: Path) -> None:
        """Draw accuracy over the rounds: mean over seeds, with one standard deviation.

        Raises:
            OSError: the picture cannot be written.
        """
        one, other = self.names
        if one == other:
            other = f"{other} (second)"
        with mpl.rc_context(STYLE):
            figure = drawn(
                accuracy_plot({one: self.first, other: self.second}, methods=[one, other])
            )
            with draft_of(path) as draft:
                figure.savefig(draft, dpi=160, format="png")


def different_lengths(runs: Sequence[Run]) -> list[str]:
    """Return that the runs did not end after the same round, if one ended early."""
    if not any(run.record.stopped for run in runs):
        return []
    ends = span(pd.Series([run.record.last_round for run in runs]))
    return [f"the runs ended after {ends} rounds (stop=patience): the last round is each run's own"]


def compare(first: Path, second: Path) -> Comparison:
    """Return the comparison of two runs.

    Raises:
        ConfigError: one is no completed run, or has no accuracy.
    """
    one, other = scored_run(first), scored_run(second)
    if without_seed(one) == without_seed(other):  # the seeds themselves are compared
        return Comparison([one], [other])
    return Comparison(with_other_seeds(first), with_other_seeds(second))


def scored_run(directory: Path) -> Run:
    """Return a completed run whose accuracy is known.

    Raises:
        ConfigError: it is none.
    """
    run = completed_run(directory)
    if not run.scored:
        raise ConfigError("run", directory, UNSCORED)
    return run


def with_other_seeds(directory: Path) -> list[Run]:
    """Return a run and the completed runs beside it that differ in the seed alone.

    Of several runs of a seed the latest counts, but the named run counts for its own.
    """
    named = scored_run(directory)
    own = without_seed(named)
    by_seed = {
        run.config[SEED]: run
        for run in read_runs(directory.parent).runs
        if without_seed(run) == own and run.record.data_version == named.record.data_version
    }
    by_seed.pop(named.config[SEED], None)
    return [named, *by_seed.values()]


def setting_in_words(key: str, value: str) -> str:
    """Return a setting as words: the label of a component, or the key and its value."""
    group = key.removesuffix(".name")
    label = label_of(group, value)
    return label if label != value else f"{group} {value}"


def settings_of(run: Run) -> Settings:
    """Return the settings that decide a run's result, by dotted key."""
    return deciding(run.config)


def without_seed(run: Run) -> Settings:
    """Return the settings that decide a run's result, but not the seed."""
    return {key: value for key, value in settings_of(run).items() if key != SEED}


def shown(settings: Mapping[str, Any], key: str) -> str:
    """Return a setting's value as text, "-" if there is no such setting."""
    return as_typed(settings[key]) if key in settings else "-"


def frame_of(runs: Sequence[Run]) -> pd.DataFrame:
    """Return the accuracies of runs by seed."""
    return pd.DataFrame([readings(run) for run in runs], [run.config[SEED] for run in runs])
