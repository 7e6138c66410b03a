"""A run's record: the directory with ``run.json``, the tables, the model and the log."""

import csv
import hashlib
import importlib.metadata
import json
import logging
import os
import platform
import secrets
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from filelock import FileLock, Timeout
from safetensors.numpy import save_file

from server_app.checkpoint import NAME as CHECKPOINT
from server_app.checkpoint import load_checkpoint
from server_app.experiment import Experiment
from server_app.identity import code_hash, identity_of
from server_app.replies import ClientUpdate
from server_app.watching.base import Audience
from server_app.watching.mlflow import MLflow
from server_app.watching.tensorboard import TensorBoard
from server_app.weights import Weights
from task.errors import ConfigError, system_reason
from task.fingerprint import fingerprint

FORMAT = 2  # 1 had no classes.csv, no code, and of the test set only accuracy and loss
WATCHERS = (TensorBoard, MLflow)
NOTHING = -1  # the round up to which a run is kept that left no checkpoint
LOCK = ".lock"
INTERRUPTED = "interrupted"  # the reason of a failed run that a person ended
LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s %(message)s"
PACKAGES = (
    "univarfl",
    "flwr",
    "hydra-core",
    "numpy",
    "ray",
    "scikit-learn",
    "torch",
    "torchvision",
)
ROUND_COLUMNS = ("round", "split", "metric", "value")
CLIENT_COLUMNS = (
    "round", "client", "site", "status", "reason", "examples", "seconds", "device",
)  # fmt: skip
CLASS_COLUMNS = ("round", "class", "examples", "recall")
EVENT_COLUMNS = ("time", "round", "site", "event")
CLIENT_LOSSES = ("ce", "l_he", "l_v")  # always there; a method's other terms follow

NO_RECALL: Mapping[int, tuple[int, float]] = MappingProxyType({})

logger = logging.getLogger("univarfl")


def runs_directory(experiment: Experiment) -> Path:
    """Where run directories are made, absolute."""
    place = experiment.output_dir or os.environ.get("UNIVARFL_RUNS") or "runs"
    return Path(place).expanduser().absolute()


def plan_run_directory(experiment: Experiment) -> Path:
    """The directory that a run's record will have, in a place that can be written.

    It is not there yet, unless the run is resumed.

    Raises:
        ConfigError: the place cannot be written, a run of this name is there already, or it cannot
            be resumed.
    """
    parent = runs_directory(experiment)
    directory = parent / (experiment.run_id or new_run_id(experiment))
    if experiment.resume:
        check_resumable(directory, experiment)
    elif directory.exists():
        raise ConfigError("run_id", directory.name, f"{parent} holds that run already")
    try:
        parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=parent):
            pass
    except FileExistsError:
        raise ConfigError("output_dir", parent, "must be a directory, not a file") from None
    except OSError as error:
        reason = f"must be writable: {system_reason(error)}"
        raise ConfigError("output_dir", parent, reason) from None
    return directory


def check_resumable(directory: Path, experiment: Experiment) -> None:
    """Refuse to go on with a run that is done, or that would become another one.

    Raises:
        ConfigError: it is completed or goes on elsewhere, its settings or code were others, or its
            checkpoint cannot be read.
    """
    hold(directory).release()
    load_checkpoint(directory)
    record = read_record(directory)
    if record["status"] == "completed":
        raise ConfigError("resume", directory, "that run is completed")
    if record["format"] != FORMAT or record.get("code") != code_hash():
        allowed = "that run was made by another version of the code; go on with that version"
        raise ConfigError("resume", directory, allowed)
    config = experiment.model_dump()
    if identity_of(record["config"], code_hash()) != identity_of(config, code_hash()):
        allowed = "only federation, watch and engine may be set anew when a run goes on"
        raise ConfigError("resume", directory, allowed)


def hold(directory: Path) -> FileLock:
    """Keep others from the run; the system lets go of it when this process ends, however it does.

    Raises:
        ConfigError: another process is at work on it.
    """
    lock = FileLock(directory / LOCK)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        allowed = "another process is at work on that run"
        raise ConfigError("resume", directory, allowed) from None
    return lock


def new_run_id(experiment: Experiment) -> str:
    """A name that tells what was run, and that two runs of the same second do not share."""
    now = datetime.now(tz=UTC).strftime("%Y%m%d-%H%M%S")
    what = f"{experiment.data['name']}-{experiment.method['name']}-s{experiment.seed}"
    return f"{now}-{what}-{secrets.token_hex(4)}"


class Recorder:
    """Writes one run's record, each file so that a reader never sees half of it.

    Args:
        directory: the run's; it is there already if the run is resumed.
        experiment: what is run.
        kept: of a resumed run, the last round that stays in the record.

    Raises:
        ConfigError: another process is running it.
    """

    def __init__(self, directory: Path, experiment: Experiment, kept: int = NOTHING) -> None:
        self.directory = directory
        directory.mkdir(exist_ok=bool(experiment.resume))
        self._lock = hold(directory)
        self._log = logging.FileHandler(directory / "run.log")
        self._log.setFormatter(logging.Formatter(LOG_FORMAT))
        logger.addHandler(self._log)
        terms = [term for member in experiment.local_method().members() for term in member.terms]
        self._client_losses = list(dict.fromkeys([*CLIENT_LOSSES, *terms]))
        self.summary = self._go_on(kept) if experiment.resume else self._begin(experiment)
        self.update()
        self._audience = Audience(kind for kind in WATCHERS if kind.wanted(experiment))
        self._audience.begin(directory, self.summary)

    def _go_on(self, kept: int) -> dict[str, Any]:
        """Take up a record after a round: what came later is done again."""
        for name, columns in self._tables().items():
            keep_rounds(self.directory / name, columns, kept)
        self.event(max(kept, 0), "", "the run was resumed")
        record = read_record(self.directory)
        resumed = [*record.get("resumed", []), timestamp()]
        return {**record, "status": "running", "reason": "", "resumed": resumed}

    def _tables(self) -> dict[str, Sequence[str]]:
        """The columns of the tables whose rows begin with their round."""
        return {
            "rounds.csv": ROUND_COLUMNS,
            "classes.csv": CLASS_COLUMNS,
            "clients.csv": [*CLIENT_COLUMNS, *self._client_losses],
        }

    def _begin(self, experiment: Experiment) -> dict[str, Any]:
        """A new record."""
        for name, columns in {**self._tables(), "events.csv": EVENT_COLUMNS}.items():
            self._write_rows(name, [columns])
        return {
            "format": FORMAT,
            "status": "running",
            "reason": "",
            "run_id": self.directory.name,
            "key": secrets.token_hex(16),
            "config": experiment.model_dump(),
            "fingerprint": fingerprint(),
            "code": code_hash(),
            "versions": {"python": platform.python_version(), **installed_versions()},
            "machine": {"platform": platform.platform(), "cpus": os.cpu_count(), "threads": 1},
            "started": timestamp(),
        }

    def update(self, **entries: Any) -> None:
        """Put entries into ``run.json``."""
        self.summary |= entries
        write_record(self.directory, self.summary)

    def round(
        self,
        server_round: int,
        scores: Mapping[str, Mapping[str, float]],
        updates: Iterable[ClientUpdate] = (),
        recall: Mapping[int, tuple[int, float]] = NO_RECALL,
    ) -> None:
        """Record one round: metrics by split, each participant, and each class of the test set."""
        rows = [client_row(server_round, update, self._client_losses) for update in updates]
        self._write_rows("clients.csv", rows)
        self._write_rows(
            "classes.csv",
            [(server_round, label, examples, value) for label, (examples, value) in recall.items()],
        )
        self._write_rows(
            "rounds.csv",
            [
                (server_round, split, metric, value)
                for split, metrics in scores.items()
                for metric, value in metrics.items()
            ],
        )
        self._audience.round(server_round, scores)

    def event(self, server_round: int, site: str, what: str) -> None:
        """Record what happened to a site, or to the run as a whole."""
        self._write_rows("events.csv", [(timestamp(), server_round, site, what)])
        logger.warning("%s", f"site {site}: {what}" if site else what)

    def save_model(self, weights: Weights) -> None:
        """Write the final global model; equal weights give an equal file."""
        path = self.directory / "model.safetensors"
        temporary = path.with_suffix(".tmp")
        save_file(
            {name: np.asarray(value, order="C") for name, value in weights.items()}, temporary
        )
        temporary.replace(path)
        self.update(model_sha256=hashlib.sha256(path.read_bytes()).hexdigest())

    def close(self, status: str, reason: str = "") -> None:
        """Say how the run ended, last of all."""
        self._audience.end(status)
        self.update(status=status, reason=reason, ended=timestamp())
        if status == "completed":
            (self.directory / CHECKPOINT).unlink(missing_ok=True)
        self._lock.release()
        logger.removeHandler(self._log)
        self._log.close()

    def _write_rows(self, name: str, rows: Iterable[Iterable[Any]]) -> None:
        with (self.directory / name).open("a", newline="") as file:
            csv.writer(file).writerows(rows)


def keep_rounds(path: Path, columns: Sequence[str], last: int) -> None:
    """Take a table's rows of later rounds away, and a row that was cut off."""
    with path.open(newline="") as file:
        rows = [row for row in csv.reader(file) if len(row) == len(columns)]
    kept = [row for row in rows[1:] if int(row[0]) <= last]
    temporary = path.with_suffix(".tmp")
    with temporary.open("w", newline="") as file:
        csv.writer(file).writerows([columns, *kept])
    temporary.replace(path)


def write_record(directory: Path, summary: Mapping[str, Any]) -> None:
    """Write ``run.json`` in one move."""
    temporary = directory / "run.json.tmp"
    temporary.write_text(json.dumps(summary, indent=2) + "\n")
    temporary.replace(directory / "run.json")


def read_record(directory: Path) -> dict[str, Any]:
    """A run's ``run.json``."""
    record: dict[str, Any] = json.loads((directory / "run.json").read_text())
    return record


def reopen_record(directory: Path) -> None:
    """Say that a run goes on, before the process that will run it can."""
    write_record(directory, read_record(directory) | {"status": "running", "reason": ""})


def close_record(directory: Path, status: str, reason: str) -> None:
    """Close the record of a run that could not close it itself; one that did stays as it is."""
    if not (directory / "run.json").exists():
        return
    record = read_record(directory)
    if record["status"] == "running":
        write_record(directory, record | {"status": status, "reason": reason, "ended": timestamp()})


def client_row(server_round: int, update: ClientUpdate, losses: Sequence[str]) -> list[Any]:
    """One participant's line in ``clients.csv``; a loss its method does not have stays empty."""
    status = "ok" if update.accepted else "failed"
    head = [server_round, update.client, update.site, status, update.reason]
    counts = [update.examples, round(update.seconds, 3), update.device]
    return head + counts + [update.losses.get(name, "") for name in losses]


def installed_versions() -> dict[str, str]:
    """The versions of the packages that a result may depend on."""
    found = {}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def timestamp() -> str:
    """Now, in UTC."""
    return datetime.now(tz=UTC).isoformat(timespec="seconds")
