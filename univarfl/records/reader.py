"""The reader of run directories: checks every record, and reports those it cannot use."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from server_app.runs.identity import identity_of, recorded_code
from server_app.runs.records.parts import Data
from server_app.runs.records.record import INTERRUPTED, RUN_JSON
from server_app.runs.records.run_record import RunRecord, read_record
from server_app.runs.records.tables import (
    CLASS_COLUMNS,
    CLASSES,
    CLIENTS,
    ROUNDS,
    RecordError,
    Series,
    parse_count,
    parse_number,
    read_lines,
    read_series,
)
from task.errors import ConfigError
from univarfl.terminal.steps import bar_on_terminal

UNSCORED = (
    "has no accuracy after its last round: there were no test images, and no client validated it"
)


@dataclass(frozen=True)
class Run:
    """A run read from its record.

    Attributes:
        directory: the run directory.
        record: the content of its ``run.json``.
        series: values by round, by split and metric; empty unless the run is completed.
        recall: images and recall by class number, of the last scored round; empty in format 1.
    """

    directory: Path
    record: RunRecord
    series: Series
    recall: Mapping[int, tuple[int, float]]

    @property
    def config(self) -> Mapping[str, Any]:
        """The configuration of the run."""
        return self.record.config

    @property
    def identity(self) -> tuple[str, str | None]:
        """What runs with equal results share: settings and code as a hash, and the data.

        Records without a data version count as runs of the same data: nothing shows that they
        differ. They are not pooled with records that have one.
        """
        return identity_of(self.config, recorded_code(self.record)), self.record.data_version

    @property
    def data(self) -> Data:
        """The images of the run, which every completed run has."""
        assert self.record.data
        return self.record.data

    @property
    def personal(self) -> bool:
        """Whether a part of the model stays with each client, so that no single model exists."""
        return bool(self.record.personal)

    @property
    def multilabel(self) -> bool:
        """Whether an image can have several classes."""
        return bool(self.config.get("task", {}).get("name") == "multilabel")

    @property
    def split(self) -> str:
        """The split that accuracy is reported on: "test", or "validation" without a test set."""
        tested = self.series.get(("test", "accuracy"), {})
        return "test" if self.record.last_round in tested else "validation"

    @property
    def scored(self) -> bool:
        """Whether the accuracy after the last round is known.

        Without test images it is not, if no client validated the model. Clients with noise never
        do, and others may not have answered.
        """
        return self.record.last_round in self.series.get((self.split, "accuracy"), {})


@dataclass(frozen=True)
class Collection:
    """The runs of a directory.

    Attributes:
        runs: the completed runs whose accuracy is known, oldest first.
        problems: one line for each other record, with the reason.
    """

    runs: list[Run]
    problems: list[str]


def read_runs(directory: Path) -> Collection:
    """Return every run in a directory, or the one run that the directory itself is.

    Raises:
        ConfigError: there are no runs.
    """
    if (directory / RUN_JSON).exists():
        places = [directory]
    elif directory.is_dir():
        places = sorted(path for path in directory.iterdir() if has_record(path))
    else:
        raise ConfigError("runs", directory, "there is no such directory; name one with runs")
    if not places:
        raise ConfigError(
            "runs", directory, "holds no runs; name the directory that has the run directories"
        )
    runs: list[Run] = []
    others: list[Run] = []
    problems = []
    for place in bar_on_terminal(places, "reading records"):
        try:
            run = read_run(place)
        except RecordError as error:
            problems.append(f"{place.name}: {error}")
        else:
            if not run.record.completed:
                others.append(run)
            elif run.scored:
                runs.append(run)
            else:
                problems.append(f"{place.name}: {UNSCORED}")
    runs.sort(key=lambda run: (run.record.started, run.directory.name))
    done = {run.identity for run in runs}
    problems += [
        f"{run.directory.name}: {ending(run)}" for run in others if run.identity not in done
    ]
    return Collection(runs, problems)


def ending(run: Run) -> str:
    """Return why a run has no result, to follow its name in a sentence."""
    if run.record.status == "running":
        return "is still running, or was killed"
    reason = run.record.reason
    return "was interrupted" if reason == INTERRUPTED else f"failed: {reason or 'no reason given'}"


def has_record(path: Path) -> bool:
    """Return whether a directory has a record, or part of one."""
    return any((path / name).exists() for name in (RUN_JSON, ROUNDS, CLIENTS))


def read_run(directory: Path) -> Run:
    """Return one run; its record is checked.

    Raises:
        RecordError: a file is missing or wrong.
    """
    record = read_record(directory)
    if not record.completed:
        return Run(directory, record, {}, {})
    if record.data is None:
        raise RecordError("run.json does not name the classes")
    series = read_series(directory / ROUNDS)
    check_complete(series, record.last_round)
    recall = read_recall(directory / CLASSES) if record.current else {}
    if max(recall, default=0) >= len(record.data.classes):
        raise RecordError("classes.csv has more classes than run.json")
    return Run(directory, record, series, recall)


def check_complete(series: Series, rounds: int) -> None:
    """Check that a completed run has all its rounds.

    Raises:
        RecordError: a round is missing.
    """
    seconds = series.get(("train", "seconds"), {})
    beyond = max((at for points in series.values() for at in points), default=0)
    if beyond > rounds:
        raise RecordError(f"rounds.csv has round {beyond} of {rounds}")
    missing = next((at for at in range(1, rounds + 1) if at not in seconds), None)
    if missing:
        raise RecordError(f"rounds.csv lacks round {missing} of {rounds}")


def read_recall(path: Path) -> dict[int, tuple[int, float]]:
    """Return the last round of ``classes.csv``: images and recall by class number.

    Of a very long file only the end is read.

    Raises:
        RecordError: the file is missing, or a line is wrong.
    """
    by_round: dict[int, dict[int, tuple[int, float]]] = defaultdict(dict)
    for line, (number, label, examples, recall) in read_lines(path, CLASS_COLUMNS, ending=True):
        counted = parse_count(examples, line), parse_number(recall, "recall", line)
        by_round[parse_count(number, line)][parse_count(label, line)] = counted
    return by_round[max(by_round)] if by_round else {}
