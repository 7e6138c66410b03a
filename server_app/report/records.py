"""Runs read back from their records; one that cannot be read is named, and the rest goes on."""

import csv
import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from server_app.identity import identity_of
from server_app.published import Table
from server_app.recorder import CLASS_COLUMNS, ROUND_COLUMNS
from server_app.run_record import FORMAT, INTERRUPTED
from task.errors import ConfigError, system_reason

READABLE = (1, FORMAT)
SPLITS = ("train", "validation", "test")
ENDINGS = ("completed", "failed", "running")
NEEDED = ("status", "run_id", "config", "fingerprint", "started")
IN_01 = ("accuracy", "balanced_accuracy", "macro_f1", "recall")
MAY_DIVERGE = ("loss", "calibration_error")  # a model may say nothing at all

Series = Mapping[tuple[str, str], Mapping[int, float]]


class RecordError(ValueError):
    """A record is not as a run leaves it; the text names the file and what is wrong."""


@dataclass(frozen=True)
class Run:
    """A completed run.

    Attributes:
        directory: where its record lies.
        record: its ``run.json``.
        series: by split and metric, the values by round.
        recall: of the last scored round, by class number: images and recall; empty in format 1.
    """

    directory: Path
    record: Mapping[str, Any]
    series: Series
    recall: Mapping[int, tuple[int, float]]

    @property
    def config(self) -> Mapping[str, Any]:
        """What was run."""
        config: Mapping[str, Any] = self.record["config"]
        return config

    @property
    def identity(self) -> str:
        """What it shares with a run that stands in for it."""
        return identity_of(self.config, self.code)

    @property
    def code(self) -> str:
        """A hash of the code that ran it; in format 1, of the part that clients share."""
        code: str = self.record.get("code", self.record["fingerprint"])
        return code

    @property
    def split(self) -> str:
        """What the global model is judged by: the test set, or validation where there is none."""
        tested = self.series.get(("test", "accuracy"), {})
        return "test" if self.config["rounds"] in tested else "validation"


@dataclass(frozen=True)
class Collection:
    """What a directory holds.

    Attributes:
        runs: the completed runs, oldest first.
        problems: a line for each record that cannot be used, and why.
    """

    runs: list[Run]
    problems: list[str]


def read_runs(directory: Path) -> Collection:
    """Every run in a directory, or the one run that it is.

    Raises:
        ConfigError: it holds no runs at all.
    """
    if (directory / "run.json").exists():
        places = [directory]
    elif directory.is_dir():
        places = sorted(path for path in directory.iterdir() if looks_like_a_run(path))
    else:
        raise ConfigError("runs", directory, "is no directory")
    if not places:
        raise ConfigError("runs", directory, "holds no runs; name the directory of their records")
    runs: list[Run] = []
    others: list[Run] = []
    problems = []
    for place in places:
        try:
            run = read_run(place)
        except RecordError as error:
            problems.append(f"{place.name}: {error}")
        else:
            (runs if run.record["status"] == "completed" else others).append(run)
    runs.sort(key=lambda run: (run.record["started"], run.directory.name))
    done = {run.identity for run in runs}
    problems += [
        f"{run.directory.name}: {ending(run)}" for run in others if run.identity not in done
    ]
    return Collection(runs, problems)


def ending(run: Run) -> str:
    """How a run without a result ended."""
    if run.record["status"] == "running":
        return "is still running, or was killed"
    reason = run.record.get("reason")
    return "was interrupted" if reason == INTERRUPTED else f"failed: {reason or 'no reason given'}"


def looks_like_a_run(path: Path) -> bool:
    """Whether a run, or a part of one, lies there."""
    return any((path / name).exists() for name in ("run.json", "rounds.csv", "clients.csv"))


def read_run(directory: Path) -> Run:
    """One run's record, checked.

    Raises:
        RecordError: a file is missing, cut short, or says what no run says.
    """
    record = read_summary(directory / "run.json")
    if record["status"] != "completed":
        return Run(directory, record, {}, {})
    data = record.get("data")
    if not isinstance(data, dict) or not isinstance(data.get("classes"), list):
        raise RecordError("run.json does not say what the classes are")
    series = read_series(directory / "rounds.csv")
    check_complete(series, record["config"]["rounds"])
    recall = read_recall(directory / "classes.csv") if record["format"] > 1 else {}
    if max(recall, default=0) >= len(data["classes"]):
        raise RecordError("classes.csv has more classes than run.json")
    return Run(directory, record, series, recall)


def check_complete(series: Series, rounds: int) -> None:
    """Refuse a completed run's rounds of which some are not there.

    Raises:
        RecordError: a round is missing, or the last one's accuracy.
    """
    seconds = series.get(("train", "seconds"), {})
    beyond = max((at for points in series.values() for at in points), default=0)
    if beyond > rounds:
        raise RecordError(f"rounds.csv has round {beyond} of {rounds}")
    missing = [at for at in range(1, rounds + 1) if at not in seconds]
    if missing:
        raise RecordError(f"rounds.csv lacks round {missing[0]} of {rounds}")
    if not any(rounds in series.get((split, "accuracy"), {}) for split in ("test", "validation")):
        raise RecordError("rounds.csv lacks the last round's accuracy")


def read_summary(path: Path) -> dict[str, Any]:
    """A ``run.json``.

    Raises:
        RecordError: it is missing, no JSON, of another version, or lacks an entry.
    """
    try:
        record = json.loads(path.read_text())
    except OSError as error:
        raise RecordError(f"run.json: {system_reason(error)}") from None
    except ValueError:
        raise RecordError("run.json is cut short, or no JSON") from None
    if not isinstance(record, dict) or "format" not in record:
        raise RecordError("run.json has no format, so it is not a run's")
    if record["format"] not in READABLE:
        known = " and ".join(map(str, READABLE))
        raise RecordError(f"run.json has format {record['format']}; this version reads {known}")
    missing = [name for name in NEEDED if name not in record]
    if missing:
        raise RecordError(f"run.json lacks {', '.join(missing)}")
    if record["status"] not in ENDINGS:
        raise RecordError(f"run.json has status {record['status']!r}")
    config = record["config"]
    method = config.get("method") if isinstance(config, dict) else None
    if not isinstance(method, dict) or not isinstance(method.get("name"), str):
        raise RecordError("run.json has no config that a run could have had")
    for key, least in (("seed", 0), ("rounds", 1)):
        if type(config.get(key)) is not int or config[key] < least:
            raise RecordError(f"run.json's config has no {key}")
    for key in ("fingerprint", "started", "code"):
        if not isinstance(record.get(key, ""), str):
            raise RecordError(f"run.json's {key} is no text")
    try:
        tables_of(config)
    except ValidationError:
        raise RecordError("run.json's config has published numbers of another form") from None
    return record


def tables_of(config: Mapping[str, Any]) -> list[Table]:
    """The published tables that a run's configuration brings.

    Raises:
        ValidationError: they have another form.
    """
    return TypeAdapter(list[Table]).validate_python(config.get("published", []))


def read_series(path: Path) -> dict[tuple[str, str], dict[int, float]]:
    """``rounds.csv``, by split and metric.

    Raises:
        RecordError: a line is not as a run writes it.
    """
    series: dict[tuple[str, str], dict[int, float]] = defaultdict(dict)
    for line, row in lines_of(path, ROUND_COLUMNS):
        split, metric = row["split"], row["metric"]
        at, value = whole(row["round"], line), number(row["value"], metric, line)
        if split not in SPLITS:
            raise RecordError(f"{line}: unknown split {split!r}")
        if split != "train" and metric not in (*IN_01, *MAY_DIVERGE, "clients"):
            raise RecordError(f"{line}: unknown metric {metric!r} of {split}")
        if at in series[split, metric]:
            raise RecordError(f"{line}: {split} {metric} of round {at} stands there twice")
        series[split, metric][at] = value
    return dict(series)


def read_recall(path: Path) -> dict[int, tuple[int, float]]:
    """The last round of ``classes.csv``.

    Raises:
        RecordError: a line is not as a run writes it.
    """
    found: dict[int, dict[int, tuple[int, float]]] = defaultdict(dict)
    for line, row in lines_of(path, CLASS_COLUMNS):
        counted = whole(row["examples"], line), number(row["recall"], "recall", line)
        found[whole(row["round"], line)][whole(row["class"], line)] = counted
    return found[max(found)] if found else {}


def lines_of(path: Path, columns: tuple[str, ...]) -> Iterator[tuple[str, dict[str, str]]]:
    """A table's rows, each with its place for an error to name.

    Raises:
        RecordError: there is no such file, its columns are others, or a row is cut short.
    """
    try:
        text = path.read_text()
    except OSError as error:
        raise RecordError(f"{path.name}: {system_reason(error)}") from None
    except UnicodeDecodeError:
        raise RecordError(f"{path.name} is no text") from None
    reader = csv.DictReader(text.splitlines(), quoting=csv.QUOTE_NONE)
    if tuple(reader.fieldnames or ()) != columns:
        raise RecordError(f"{path.name} has not the columns {', '.join(columns)}")
    for row in reader:
        line = f"{path.name}, line {reader.line_num}"
        if None in row or None in row.values():
            raise RecordError(f"{line} is cut short")
        yield line, row
    if not text.endswith("\n"):
        raise RecordError(f"{path.name} is cut short in its last line")


def whole(text: str, line: str) -> int:
    """A whole number from 0.

    Raises:
        RecordError: it is something else.
    """
    if not (text.isascii() and text.isdigit()):
        raise RecordError(f"{line}: {text!r} is no whole number")
    return int(text)


def number(text: str, metric: str, line: str) -> float:
    """A finite number, and a share of 1 where the metric is one.

    Raises:
        RecordError: it is something else.
    """
    try:
        value = float(text)
    except ValueError:
        raise RecordError(f"{line}: {text!r} is no number") from None
    wrong = not 0 <= value <= 1 if metric in IN_01 else metric == "seconds" and value < 0
    if wrong or (not math.isfinite(value) and metric not in MAY_DIVERGE):
        raise RecordError(f"{line}: {metric} cannot be {text}")
    return value
