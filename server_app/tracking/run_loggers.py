"""The metric loggers of a run, started and closed with it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from server_app.config.experiment import Experiment
from server_app.tracking.loggers import MetricLoggers
from task.registry import named

OFF = (None, False)
METRIC_LOGGERS = {  # by the setting that asks for it
    "tensorboard": "server_app.tracking.tensorboard:TensorBoard",
    "mlflow": "server_app.tracking.mlflow:MLflow",
}


@contextmanager
def metric_loggers(
    experiment: Experiment, directory: Path, summary: Mapping[str, Any]
) -> Iterator[MetricLoggers]:
    """Start the loggers that an experiment wants; close them however its run ends.

    Args:
        experiment: what is run.
        directory: the run directory.
        summary: its ``run.json``.
    """
    asked = [
        named(at) for key, at in METRIC_LOGGERS.items() if getattr(experiment.watch, key) not in OFF
    ]
    loggers = MetricLoggers(kind for kind in asked if kind.installed())
    loggers.begin(directory, summary)
    status = "failed"
    try:
        yield loggers
        status = "completed"
    finally:
        loggers.end(status)
