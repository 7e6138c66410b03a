"""The MLflow logger: settings, metrics and status of a run, sent with MLflow's own client."""

import logging
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

from server_app.config.override_text import flat
from server_app.runs.records.run_record import RunRecord
from server_app.tracking.loggers import MetricLogger, Scores

if TYPE_CHECKING:
    from mlflow import MlflowClient

EXPERIMENT = "univarfl"
STATUS = {"completed": "FINISHED"}
# MLflow itself waits 120 s for an answer and tries 8 times. Who sets these variables keeps them.
PATIENCE = {"MLFLOW_HTTP_REQUEST_TIMEOUT": "4", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1"}


class MLflow(MetricLogger):
    """A run of the MLflow experiment ``univarfl`` at the tracking URI ``watch.mlflow``."""

    package: ClassVar = "mlflow"
    module: ClassVar = "mlflow"

    def __init__(self, directory: Path, record: RunRecord) -> None:
        for name, value in PATIENCE.items():
            os.environ.setdefault(name, value)
        # It would print a line for each attempt; a failure is logged once, by `loggers`.
        logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)
        # Imported here because it takes seconds, and is not installed by default.
        from mlflow import MlflowClient  # noqa: PLC0415
        from mlflow.entities import Param  # noqa: PLC0415

        self._client = MlflowClient(tracking_uri=record.config["watch"]["mlflow"])
        place = experiment_id(self._client)
        self._run = self._client.create_run(place, run_name=directory.name).info.run_id
        settings = flat({**record.config, "published": None})
        self._client.log_batch(
            self._run, params=[Param(key, str(value)) for key, value in settings.items()]
        )

    @classmethod
    def begin(cls, directory: Path, record: RunRecord) -> Self:
        return cls(directory, record)

    def round(self, server_round: int, scores: Scores) -> None:
        from mlflow.entities import Metric  # noqa: PLC0415

        now = int(1000 * time.time())
        metrics = [
            Metric(f"{metric}/{split}", value, now, server_round)
            for split, of in scores.items()
            for metric, value in of.items()
        ]
        self._client.log_batch(self._run, metrics=metrics)

    def end(self, status: str) -> None:
        self._client.set_terminated(self._run, STATUS.get(status, "FAILED"))


def experiment_id(client: "MlflowClient") -> str:
    """Return the id of the experiment; create it if neither this nor another run has done so."""
    found = client.get_experiment_by_name(EXPERIMENT)
    if found is None:
        with suppress(Exception):
            client.create_experiment(EXPERIMENT)
        found = client.get_experiment_by_name(EXPERIMENT)
    if found is None:
        raise RuntimeError(f"the experiment {EXPERIMENT} cannot be created there")
    return str(found.experiment_id)
