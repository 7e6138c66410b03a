"""A run's record: the directory with ``run.json``, the tables, the model and the log."""

import contextlib
import csv
import hashlib
import importlib.metadata
import io
import logging
import os
import platform
import secrets
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from server_app.checkpoint import forget_checkpoints
from server_app.experiment import Experiment
from server_app.identity import code_hash
from server_app.replies import ClientUpdate
from server_app.run_directory import hold
from server_app.run_record import FORMAT, read_record, timestamp, write_record
from server_app.watching.base import Audience
from server_app.watching.mlflow import MLflow
from server_app.watching.tensorboard import TensorBoard
from server_app.weights import Weights, as_bytes
from task.causes import explained
from task.files import write_whole
from task.fingerprint import fingerprint

WATCHERS = (TensorBoard, MLflow)
NOTHING = -1  # the round up to which a run is kept that left no checkpoint
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


class RunLog(logging.FileHandler):
    """``run.log``. Where the disk is full, the run itself says so, and no line of its log."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Leave the line out."""


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
        self._log = RunLog(directory / "run.log")
        self._log.setFormatter(logging.Formatter(LOG_FORMAT))
        logger.addHandler(self._log)
        terms = [term for member in experiment.local_method().members() for term in member.terms]
        self._round = max(kept, 0)
        self._client_losses = list(dict.fromkeys([*CLIENT_LOSSES, *terms]))
        self.summary = self._go_on(kept) if experiment.resume else self._begin(experiment)
        self.update()
        self._audience = Audience(kind for kind in WATCHERS if kind.wanted(experiment))
        self._audience.begin(directory, self.summary)

    def _go_on(self, kept: int) -> dict[str, Any]:
        """Take up a record after a round: what came later is done again."""
        for name, columns in self._tables().items():
            keep_rounds(self.directory / name, columns, kept)
        self.event(max(kept, 0), "", f"the run was resumed after round {max(kept, 0)}")
        record = read_record(self.directory)
        news = {
            "status": "running",
            "reason": "",
            "resumed": [*record.get("resumed", []), timestamp()],
            "resumed_from": max(kept, 0),
            "worker_lost": False,
        }
        return {**record, **news}

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
        self._round = server_round
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
        content = as_bytes(weights)
        write_whole(path, content)
        self.update(model_sha256=hashlib.sha256(content).hexdigest())

    def complete(self) -> None:
        """Say that the run is completed, last of all."""
        self._audience.end("completed")
        self.update(status="completed", ended=timestamp())
        forget_checkpoints(self.directory)
        self._release()

    def fail(self, reason: str, worker_lost: bool = False) -> None:
        """Say why the run was not completed, if that can be written; if not, it can still go on."""
        try:
            self._audience.end("failed")
            self.update(status="failed", reason=reason, worker_lost=worker_lost, ended=timestamp())
            self._write_rows("events.csv", [(timestamp(), self._round, "", f"it ended: {reason}")])
        except OSError as error:
            logger.error("the record cannot be closed: %s", explained(error))
        finally:
            self._release()

    def _release(self) -> None:
        self._lock.release()
        logger.removeHandler(self._log)
        with contextlib.suppress(OSError):
            self._log.close()

    def _write_rows(self, name: str, rows: Iterable[Iterable[Any]]) -> None:
        with (self.directory / name).open("a", newline="") as file:
            csv.writer(file).writerows(rows)
            file.flush()
            os.fsync(file.fileno())  # what a checkpoint follows is there when the checkpoint is


def keep_rounds(path: Path, columns: Sequence[str], last: int) -> None:
    """Take a table's rows of later rounds away, and a row that was cut off."""
    with path.open(newline="") as file:
        rows = [row for row in csv.reader(file) if len(row) == len(columns)]
    kept = [row for row in rows[1:] if int(row[0]) <= last]
    text = io.StringIO(newline="")
    csv.writer(text).writerows([columns, *kept])
    write_whole(path, text.getvalue().encode())


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
