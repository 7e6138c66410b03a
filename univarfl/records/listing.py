"""A table of the runs in a directory, read from ``run.json`` alone, so that it is quick."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from server_app.config.differences import deciding
from server_app.config.override_text import as_typed
from server_app.runs.records.metrics import ACCURACY
from server_app.runs.records.record import INTERRUPTED, RUN_JSON
from server_app.runs.records.run_record import RunRecord, read_record
from server_app.runs.records.tables import RecordError, count_rounds
from task.errors import ConfigError
from univarfl.records.differences import varied_keys
from univarfl.records.labels import label_of
from univarfl.records.status import is_held

LONGEST = 60  # characters of a reason
NAME = ".name"  # ends the key of a component's choice


@dataclass(frozen=True)
class ListedRun:
    """What a table shows of a run.

    Attributes:
        name: the name of its directory.
        started: when it started, as recorded.
        status: how it stands.
        accuracy: the final accuracy in %, or "".
        settings: the settings that decide its result, by dotted key.
    """

    name: str
    started: str
    status: str
    accuracy: str
    settings: Mapping[str, Any]


def listed_runs(directory: Path) -> list[ListedRun]:
    """Return the runs in a directory, oldest first; damaged records are among them.

    Raises:
        ConfigError: there are none.
    """
    if not directory.is_dir():
        raise ConfigError("runs", directory, "there is no such directory; name one with runs")
    runs = [read_listed(path.parent) for path in directory.glob(f"*/{RUN_JSON}")]
    if not runs:
        allowed = "holds no runs; name the directory that has the run directories"
        raise ConfigError("runs", directory, allowed)
    return sorted(runs, key=lambda run: (run.started, run.name))


def read_listed(directory: Path) -> ListedRun:
    """Return one run; of a damaged record, its name and "damaged record"."""
    try:
        record = read_record(directory)
    except RecordError:
        return ListedRun(directory.name, "", "damaged record", "", {})
    return ListedRun(
        directory.name, record.started, status_of(record, directory), accuracy_of(record),
        deciding(record.config),
    )  # fmt: skip


def status_of(record: RunRecord, directory: Path) -> str:
    """Return how a run stands: completed, running, killed, interrupted or failed."""
    if record.completed:
        return record.status
    rounds = f"{count_rounds(directory)}/{record.config['rounds']}"
    if record.status == "running":
        return f"{'running' if is_held(directory) else 'killed'} {rounds}"
    if record.reason == INTERRUPTED:
        return f"interrupted {rounds}"
    text = " ".join(record.reason.split())
    return f"failed {rounds}: {text[:LONGEST]}{'...' if len(text) > LONGEST else ''}"


def accuracy_of(record: RunRecord) -> str:
    """Return the accuracy of the final model in %, with what one must know of it in brackets.

    That is the split if it is not the test set, and the stage after training that made the model.
    Fine-tuning, whose scores are those over clients, leaves the model as it is.
    """
    for split, accuracy in record.results.accuracies():
        stage = record.after
        made = f"after {label_of('after', stage.name)}" if stage and stage.changed_model else ""
        notes = ", ".join(filter(None, ("" if split == "test" else split, made)))
        return f"{100 * accuracy:.1f}{f' ({notes})' if notes else ''}"
    return ""


def table_of(runs: Sequence[ListedRun]) -> tuple[list[str], list[list[str]]]:
    """Return headings and rows: run, status, the settings that differ, accuracy."""
    usable = [run.settings for run in runs if run.settings]
    keys = varied_keys(usable)
    headings = ["run", "status", *(key.removesuffix(NAME) for key in keys), ACCURACY]
    rows = [
        [run.name, run.status, *(shown(run.settings, key) for key in keys), run.accuracy]
        for run in runs
    ]
    return headings, rows


def shown(settings: Mapping[str, Any], key: str) -> str:
    """Return a setting's value as text, a component's label; empty if a run has no such setting."""
    if key not in settings:
        return ""
    text = as_typed(settings[key])
    return label_of(key.removesuffix(NAME), text) if key.endswith(NAME) else text
