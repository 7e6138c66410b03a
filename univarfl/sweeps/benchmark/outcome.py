"""The runs of a benchmark that are completed, and the value that is chosen for each method."""

import functools
import json
import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from server_app.config.composition import compose_experiment
from server_app.runs.records.record import RUN_JSON
from server_app.runs.records.run_record import RunRecord, read_record
from server_app.runs.records.tables import RecordError
from task.errors import DIVERGED, ConfigError
from univarfl.records.differences import settings_hash, without_root
from univarfl.records.reader import Run
from univarfl.report.readings import WINDOW
from univarfl.sweeps.benchmark.plan import Entry, Plan, rows, trials, values_of


@dataclass(frozen=True)
class Trial:
    """What tuning found for one value.

    Attributes:
        method: the method's name.
        value: the word of the setting and its value.
        score: the mean validation accuracy; minus infinity if a run diverged, and None if a run is
            missing.
        chosen: whether it is the best one.
    """

    method: str
    value: str
    score: float | None
    chosen: bool


class BenchmarkRuns:
    """The completed runs of a plan, and those that diverged.

    Args:
        plan: the benchmark.
        runs: completed runs; of equal settings the latest counts, with any code. Runs on other
            images than the latest run of their data set do not count.
        diverged: the hashes of the settings of runs that failed because training diverged.
    """

    def __init__(self, plan: Plan, runs: Iterable[Run], diverged: Collection[str] = ()) -> None:
        self.plan, self._diverged = plan, diverged
        ordered = sorted(runs, key=lambda run: run.record.started)
        latest = {data_settings(run): run.record.data_version for run in ordered}
        self._runs: dict[str, Run] = {}
        self._others: Counter[str] = Counter()  # runs on other images, by data set
        for run in ordered:
            if run.record.data_version == latest[data_settings(run)]:
                self._runs[settings_hash(run.config)] = run
            else:
                self._others[str(run.config["data"]["name"])] += 1

    def left_out(self) -> list[str]:
        """Return a line for each data set with runs that do not count."""
        return [
            f"data={name}: {count} runs do not count, because the latest run on this data set used "
            "other images; run those methods again"
            for name, count in self._others.items()
        ]

    def run_of(self, entry: Entry) -> Run | None:
        """Return the completed run of an entry, if there is one."""
        settings = hash_of(entry)
        return self._runs.get(settings) if settings else None

    def missing(self, entries: Iterable[Entry]) -> list[Entry]:
        """Return the entries without a completed run; one that diverged needs no other one."""
        return [
            entry
            for entry in entries
            if self.run_of(entry) is None and not self.has_diverged(entry)
        ]

    def has_diverged(self, entry: Entry) -> bool:
        """Return whether an entry has no completed run because training diverged."""
        return self.run_of(entry) is None and hash_of(entry) in self._diverged

    @cached_property
    def trials(self) -> Mapping[str, Sequence[Trial]]:
        """The trials of each method. The first of equally good values is chosen."""
        return {method: self._trials_of(method) for method in self.plan.methods}

    def chosen(self, method: str) -> str | None:
        """Return the word of a method's chosen value.

        None while a trial is missing, and if every value diverged.
        """
        return next((trial.value for trial in self.trials[method] if trial.chosen), None)

    def rows(self, method: str) -> list[Entry]:
        """Return the runs of a method's rows; without the chosen value while it is not known."""
        return list(rows(self.plan, method, self.chosen(method) or ""))

    def _trials_of(self, method: str) -> list[Trial]:
        entries = list(trials(self.plan, method))
        scores = {
            value: self._score_of([entry for entry in entries if entry.value == value])
            for value in values_of(method, self.plan.methods[method])
        }
        known = [score for score in scores.values() if score is not None]
        best = max(known) if len(known) == len(scores) else -math.inf
        place = list(scores.values()).index(best) if best > -math.inf else None
        return [
            Trial(method, value, score, index == place)
            for index, (value, score) in enumerate(scores.items())
        ]

    def _score_of(self, entries: Sequence[Entry]) -> float | None:
        """Return the score of one value's trials; see `Trial`."""
        if self.missing(entries):
            return None
        runs = [self.run_of(entry) for entry in entries]
        found = [validation_of(run) for run in runs if run is not None]
        return float(np.mean(found)) if len(found) == len(runs) else -math.inf


def data_settings(run: Run) -> str:
    """Return the settings of a run's data as text, without their place on this machine."""
    return json.dumps(without_root(run.config["data"]), sort_keys=True)


def check_cells(plan: Plan) -> None:
    """Refuse cells that share their runs, and a tuning cell without validation images.

    Raises:
        ConfigError: the plan has such cells.
    """
    known: dict[str, str] = {}
    method = next(iter(plan.methods))
    for cell, words in plan.cells.items():
        first = next(each for each in rows(plan, method, "") if each.cell == cell)
        found = hash_of(first)
        if found is not None and (other := known.setdefault(found, cell)) != cell:
            allowed = f"has the settings of cell {other}; only the directory of its images differs"
            raise ConfigError(f"cells.{cell}", words, f"{allowed}: use a plan for each directory")
    tuning = next(trials(plan, method))
    try:
        share = compose_experiment(tuning.words).validation_share
    except ConfigError:  # a cell that cannot be run is named when it would be
        return
    if not share:
        cure = "has no validation images, by which values are chosen (validation_share, privacy)"
        raise ConfigError("tuning.cell", tuning.cell, cure)


def diverged_runs(place: Path) -> Iterator[tuple[Path, RunRecord]]:
    """Yield the directory and the record of each run whose training diverged."""
    for path in sorted(place.glob(f"*/{RUN_JSON}")):
        with suppress(RecordError):  # the page names damaged records
            record = read_record(path.parent)
            if record.status == "failed" and DIVERGED in record.reason:
                yield path.parent, record


def diverged_settings(place: Path) -> set[str]:
    """Return the hashes of the settings of the runs in a directory whose training diverged."""
    return {settings_hash(record.config) for _, record in diverged_runs(place)}


def validation_of(run: Run) -> float:
    """Return the mean validation accuracy of a run's last five rounds."""
    scored = run.series["validation", "accuracy"]
    return float(np.mean([scored[at] for at in sorted(scored)[-WINDOW:]]))


def hash_of(entry: Entry) -> str | None:
    """Return the hash of an entry's settings; None if its settings do not go together."""
    words = tuple(word for word in entry.words if not word.startswith("seed="))
    config = composed(words)
    return None if config is None else settings_hash({**config, "seed": entry.seed})


@functools.lru_cache(maxsize=4096)
def composed(words: tuple[str, ...]) -> Mapping[str, Any] | None:
    """Return the configuration of some words, which takes a tenth of a second; None if invalid."""
    try:
        return compose_experiment(words).model_dump()
    except ConfigError:
        return None
