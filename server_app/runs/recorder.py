"""The writer of a run's record: ``run.json``, the tables, the model and the log."""

import contextlib
import hashlib
import importlib.metadata
import logging
import os
import platform
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from server_app.aggregation.client_update import ClientUpdate
from server_app.aggregation.weights import Weights, as_bytes
from server_app.config.experiment import Experiment
from server_app.runs.checkpoint import Checkpoint, forget_checkpoints
from server_app.runs.directory import RUN_LOG, clear
from server_app.runs.identity import code_of
from server_app.runs.lock import hold
from server_app.runs.records.by_class import save_by_class
from server_app.runs.records.image_versions import versions_of
from server_app.runs.records.record import FORMAT, timestamp
from server_app.runs.records.run_record import RunRecord, read_record, write_record
from server_app.runs.records.table_writers import RunTables
from server_app.runs.records.tables import (
    CLASSES,
    CLIENTS,
    EVENTS,
    MOST_ROWS_AS_CSV,
    PARQUET,
    ROUNDS,
)
from task.error_messages import describe_error
from task.fingerprint import fingerprint_for
from task.machine.files import Mark, mark_of, write_whole
from task.plain_text import PlainFormatter
from task.registry import named
from task.training.one_vs_rest import OneVsRest

LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s %(message)s"
PACKAGES = (
    "univarfl",
    "flwr",
    "hydra-core",
    "numpy",
    "ray",
    "scikit-learn",
    "timm",
    "torch",
    "torchvision",
)
COMPACT = "server_app.runs.records.compaction:compact"  # with pandas and pyarrow
NO_RECALL: Mapping[int, tuple[int, float]] = MappingProxyType({})

logger = logging.getLogger("univarfl")


class RunLog(logging.FileHandler):
    """Writer of ``run.log``. A full disk is reported by the run itself, not for each log line."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Ignore a line that cannot be written."""


class Recorder:
    """Writer of one run's record: ``run.json``, the tables, the model and the log.

    Args:
        directory: the run directory.
        experiment: the configuration of the run.

    Attributes:
        checkpoint: from which a resumed run goes on; later rounds are removed from the record.
        record: the content of ``run.json``.

    Raises:
        ConfigError: another process writes this record; a new run has a record already, or a
            resumed one cannot go on.
    """

    def __init__(self, directory: Path, experiment: Experiment) -> None:
        self.directory = directory
        directory.mkdir(exist_ok=True)
        self._lock = hold(directory)
        self._marks: dict[str, Mark] = {}
        try:
            self.checkpoint = self._checked(experiment)
        except BaseException:
            self._lock.release()
            raise
        self._log = RunLog(directory / RUN_LOG, encoding="utf-8")
        self._log.setFormatter(PlainFormatter(LOG_FORMAT))
        logger.addHandler(self._log)
        self._round = self.checkpoint.round if self.checkpoint else 0
        try:
            kept = self.checkpoint.files if self.checkpoint else {}
            self._tables = RunTables(directory, experiment, kept, bool(experiment.resume))
            self.record = self._resumed() if experiment.resume else self._new(experiment)
            self.update()
        except BaseException:
            self.close()
            raise

    def _checked(self, experiment: Experiment) -> Checkpoint | None:
        """Check under the lock what this recorder builds on, and return the last checkpoint."""
        if not experiment.resume:
            clear(self.directory)
            return None
        from server_app.runs.resuming.checks import check_record  # noqa: PLC0415  (rarely used)
        from server_app.runs.resuming.files import usable_checkpoint  # noqa: PLC0415

        check_record(self.directory, experiment)
        return usable_checkpoint(self.directory, experiment)

    def _resumed(self) -> RunRecord:
        """Return the record of a run that goes on."""
        (self.directory / PARQUET).unlink(missing_ok=True)  # it ended just before completion
        self.event(self._round, "", f"the run was resumed after round {self._round}")
        record = read_record(self.directory)
        return record.changed(
            status="running",
            reason="",
            resumed=[*record.resumed, timestamp()],
            resumed_from=self._round,
            restartable=False,
        )

    def _new(self, experiment: Experiment) -> RunRecord:
        """Return the record of a new run."""
        config = experiment.model_dump()
        code, images = code_of(config), versions_of(experiment)
        entries = {
            "format": FORMAT,
            "status": "running",
            "reason": "",
            "run_id": self.directory.name,
            "key": secrets.token_hex(16),
            "config": config,
            "fingerprint": fingerprint_for(experiment.local().model_dump_json()),
            "code": code.shared,
            "components": code.components,
            "data_version": images.data,
            **({"stage_data_version": images.stage} if images.stage else {}),
            "versions": {"python": platform.python_version(), **installed_versions()},
            "machine": {"platform": platform.platform(), "cpus": os.cpu_count(), "threads": 1},
            "started": timestamp(),
        }
        return RunRecord.of(entries)

    def update(self, **entries: Any) -> None:
        """Add entries to ``run.json``, or replace them."""
        self.record = self.record.changed(**entries)
        write_record(self.directory, self.record)

    def remove(self, entry: str) -> None:
        """Remove an entry from ``run.json``, if it is there."""
        self.record = self.record.without(entry)
        self.update()

    def round(
        self,
        server_round: int,
        scores: Mapping[str, Mapping[str, float]],
        updates: Iterable[ClientUpdate] = (),
        recall: Mapping[int, tuple[int, float]] = NO_RECALL,
    ) -> None:
        """Record one round.

        Args:
            server_round: its number; 0 is the untrained model.
            scores: values by split and metric.
            updates: what each participant sent.
            recall: by class number, images in the test set and recall.
        """
        self._round = server_round
        self._tables.add_clients(server_round, updates)
        classes = [(server_round, label, *found) for label, found in recall.items()]
        self._tables.add(CLASSES, classes)
        values = [
            (server_round, split, metric, value)
            for split, metrics in scores.items()
            for metric, value in metrics.items()
        ]
        self._tables.add(ROUNDS, values)

    def event(self, server_round: int, site: str, what: str) -> None:
        """Record an event of a site, or of the whole run if `site` is empty."""
        self._tables.add(EVENTS, [(timestamp(), server_round, site, what)])
        logger.warning("%s", f"site {site}: {what}" if site else what)

    def save_model(self, weights: Weights) -> None:
        """Write the final global model and its SHA-256; equal weights give equal bytes."""
        path = self.directory / "model.safetensors"
        content = as_bytes(weights)
        write_whole(path, content)
        self.update(model_sha256=hashlib.sha256(content).hexdigest())

    def save_by_class(self, found: OneVsRest) -> None:
        """Write the final model's metrics of each class.

        Raises:
            OSError: they cannot be written.
        """
        assert self.record.data  # described before the first round
        save_by_class(self.directory, self.record.data.classes, found)

    def seconds_with(self, stage: str, seconds: float) -> dict[str, float]:
        """Return the seconds of the run's parts with those of a stage after the last round."""
        return self.record.seconds.with_stage(stage, seconds)

    def compact_clients(self) -> None:
        """Write the table of the clients as Parquet too if it is long; ``complete`` keeps one."""
        try:
            if count_lines(self.directory / CLIENTS) - 1 > MOST_ROWS_AS_CSV:
                named(COMPACT)(self.directory)
        except (OSError, ValueError) as error:
            logger.warning("%s stays as it is: %s", CLIENTS, describe_error(error))

    def complete(self) -> None:
        """Mark the run as completed and delete its checkpoints; `close` must follow."""
        self.update(status="completed", ended=timestamp())
        if (self.directory / PARQUET).exists():
            with contextlib.suppress(OSError):
                (self.directory / CLIENTS).unlink()
        forget_checkpoints(self.directory)

    def fail(self, reason: str, *, restartable: bool = False) -> None:
        """Mark the run as failed and close the record.

        If that cannot be written, the run can still be resumed.

        Args:
            reason: why.
            restartable: whether the cause is outside the experiment, so that it may go on by
                itself.
        """
        try:
            self.update(status="failed", reason=reason, restartable=restartable, ended=timestamp())
            self._tables.add(EVENTS, [(timestamp(), self._round, "", f"the run ended: {reason}")])
        except OSError as error:
            logger.error("the record cannot be closed: %s", describe_error(error))
        finally:
            self.close()

    def close(self) -> None:
        """Close the log, and let other processes write this record."""
        self._lock.release()
        logger.removeHandler(self._log)
        with contextlib.suppress(OSError):
            self._log.close()

    def marks(self, others: Iterable[str]) -> dict[str, Mark]:
        """Return the marks of the tables as they are now, and of other files.

        Args:
            others: the paths of these in the run directory. Each is read once.
        """
        names = list(others)
        for name in set(names) - self._marks.keys():
            with (self.directory / name).open("rb") as file:
                self._marks[name] = mark_of(file)
        return {**self._tables.marks, **{name: self._marks[name] for name in names}}


def installed_versions() -> dict[str, str]:
    """Return the versions of the packages that can affect a result."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = "not installed"
    return versions


def count_lines(path: Path) -> int:
    """Return the number of lines of a file."""
    with path.open("rb") as file:
        return sum(1 for _ in file)
