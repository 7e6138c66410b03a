"""Metric loggers: their interface, those of a run, and how it calls them without waiting."""

import importlib
import logging
import queue
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import ClassVar, Self

from server_app.config.experiment import Experiment
from server_app.runs.records.run_record import RunRecord
from task.registry import named

Scores = Mapping[str, Mapping[str, float]]

QUEUE_ROUNDS = 1000  # rounds that a slow logger may be behind before it is given up
FLUSH_SECONDS = 20.0  # how long the end of a run waits for its loggers, all together

OFF = (None, False)
METRIC_LOGGERS = {  # by the setting that asks for it
    "tensorboard": "server_app.tracking.tensorboard:TensorBoard",
    "mlflow": "server_app.tracking.mlflow:MLflow",
}


class MetricLogger(ABC):
    """A service or file format that receives every round's metrics.

    All calls come from one thread, which is not the thread that trains, and in order.

    Attributes:
        package: the package that it needs, for messages.
        module: the module to import before it begins.
    """

    package: ClassVar[str]
    module: ClassVar[str]

    @classmethod
    def installed(cls) -> bool:
        """Return whether it can be used here; if not, a run goes on without it and says nothing."""
        return True

    @classmethod
    @abstractmethod
    def begin(cls, directory: Path, record: RunRecord) -> Self:
        """Return the logger of a new or resumed run.

        Args:
            directory: the run directory.
            record: its record.
        """

    @abstractmethod
    def round(self, server_round: int, scores: Scores) -> None:
        """Log the metrics of one round, by split."""

    @abstractmethod
    def end(self, status: str) -> None:
        """Close the log; `status` is "completed" or "failed"."""


class MetricLoggers:
    """All loggers of a run. One that fails is named once and called no more; the run continues.

    Args:
        kinds: the classes of the loggers.
    """

    def __init__(self, kinds: Iterable[type[MetricLogger]]) -> None:
        self._kinds = list(kinds)
        self._threads: list[LoggerThread] = []

    def begin(self, directory: Path, record: RunRecord) -> None:
        """Start every logger."""
        for kind in self._kinds:
            try:
                # Imported here: imports of two threads at a time can get in each other's way.
                importlib.import_module(kind.module)
            except Exception as error:
                warn(kind, error)
            else:
                self._threads.append(LoggerThread(kind, directory, record))

    def round(self, server_round: int, scores: Scores) -> None:
        """Give one round's metrics to every logger."""
        for thread in self._threads:
            thread.round(server_round, {split: dict(of) for split, of in scores.items()})

    def end(self, status: str) -> None:
        """Close every logger, and wait until they are done, `FLUSH_SECONDS` at most."""
        for thread in self._threads:
            thread.end(status)
        deadline = time.monotonic() + FLUSH_SECONDS
        for thread in self._threads:
            thread.wait(max(0.0, deadline - time.monotonic()))


class LoggerThread:
    """A thread that calls one logger, so that training never waits for it.

    Args:
        kind: the class of the logger.
        directory: the run directory.
        record: its record.
    """

    def __init__(self, kind: type[MetricLogger], directory: Path, record: RunRecord) -> None:
        self._kind = kind
        self._calls: queue.Queue[Callable[[MetricLogger], None] | None]
        self._calls = queue.Queue(QUEUE_ROUNDS)
        self._failed = threading.Event()
        self._naming = threading.Lock()
        self._thread = threading.Thread(target=self._work, args=(directory, record), daemon=True)
        self._thread.start()

    def round(self, server_round: int, scores: Scores) -> None:
        """Queue one round's metrics."""
        self._queue(lambda metric_logger: metric_logger.round(server_round, scores))

    def end(self, status: str) -> None:
        """Queue the end of the log, after which the thread ends."""
        self._queue(lambda metric_logger: metric_logger.end(status))
        self._queue(None)

    def wait(self, seconds: float) -> None:
        """Wait for the thread, and give the logger up if that takes longer."""
        if not self._failed.is_set():
            self._thread.join(seconds)
        if self._thread.is_alive():
            self._fail(TimeoutError("it has not taken all metrics at the end of the run"))

    def _queue(self, call: Callable[[MetricLogger], None] | None) -> None:
        if self._failed.is_set():
            return
        try:
            self._calls.put_nowait(call)
        except queue.Full:
            self._fail(TimeoutError(f"it is {QUEUE_ROUNDS} rounds behind"))

    def _work(self, directory: Path, record: RunRecord) -> None:
        metric_logger = None
        try:
            metric_logger = self._kind.begin(directory, record)
            while (call := self._calls.get()) is not None and not self._failed.is_set():
                call(metric_logger)
        except Exception as error:
            self._fail(error)
            if metric_logger is not None:
                with suppress(Exception):
                    metric_logger.end("failed")

    def _fail(self, error: Exception) -> None:
        """Name the logger and the error, unless that was done before."""
        with self._naming:
            if not self._failed.is_set():
                warn(self._kind, error)  # before it counts as failed: then the run may end
                self._failed.set()


def warn(kind: type[MetricLogger], error: Exception) -> None:
    """Log that a logger receives no more metrics, and why."""
    lines = str(error).splitlines() or [""]
    logger.warning(
        "%s receives no more metrics: %s: %s", kind.package, type(error).__name__, lines[0]
    )


@contextmanager
def metric_loggers(
    experiment: Experiment, directory: Path, record: RunRecord
) -> Iterator[MetricLoggers]:
    """Start the loggers that an experiment wants; close them however its run ends.

    Args:
        experiment: what is run.
        directory: the run directory.
        record: its record.
    """
    asked = [
        named(at) for key, at in METRIC_LOGGERS.items() if getattr(experiment.watch, key) not in OFF
    ]
    loggers = MetricLoggers(kind for kind in asked if kind.installed())
    loggers.begin(directory, record)
    status = "failed"
    try:
        yield loggers
        status = "completed"
    finally:
        loggers.end(status)


logger = logging.getLogger("univarfl")
