"""The configuration of a run: every value that ``conf/config.yaml`` has.

The components that only the server uses are read by a function beside their base class, such as
`server_app.aggregation.strategies.base.strategy_of`; `server_app.config.rules` says what fits
together.
"""

from collections.abc import Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from server_app.config.tables import Table
from task.config import MEASURED, LocalConfig, Settings, Strict
from task.errors import ConfigError
from task.given_weights import WEIGHTS_HASH, without_weights
from task.registry import Names

RUN_ID = r"^[A-Za-z0-9][A-Za-z0-9._+-]*$"
MOST_SECONDS = 1e9  # that a message may name


class Watch(Strict):
    """The logs and models that are kept in addition to the record."""

    tensorboard: bool
    mlflow: str | None
    models_every: Annotated[int, Field(ge=1)] | None

    @model_validator(mode="after")
    def _check_mlflow(self) -> "Watch":
        if self.mlflow is not None and has_credentials(self.mlflow):
            allowed = (
                "must be an address without a user and password, because the record keeps it; set "
                "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD; a database has a file for "
                "passwords, such as ~/.pgpass"
            )
            raise ConfigError("watch.mlflow", "***", allowed)
        if self.mlflow is not None and find_spec("mlflow") is None:
            raise ConfigError("watch.mlflow", self.mlflow, "needs MLflow: uv sync --extra mlflow")
        return self


def has_credentials(address: str) -> bool:
    """Return whether an address has a password in it, or, for a web server, a user or token."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return "@" in address
    return bool(parts.password or (parts.username and parts.scheme in ("http", "https")))


class Sums(Strict):
    """The sums of clients' features from which the server solves a classifier.

    Attributes:
        keep: whether the run directory keeps each client's sums.
        add_to: the directory of a run that kept some, which are added up with new ones.
    """

    keep: bool
    add_to: str | None


class FederationConfig(Strict):
    """The workers that train clients, and how long the server waits for them."""

    workers: Annotated[int, Field(ge=1)] | None
    round_timeout: Annotated[float, Field(gt=0, le=MOST_SECONDS)]
    message_megabytes: Annotated[float, Field(gt=0, le=2000)]
    join_timeout: Annotated[float, Field(gt=0, le=MOST_SECONDS)]
    quorum: Annotated[float, Field(ge=0, le=1)]
    attempts: Annotated[int, Field(ge=1)]


class Stop(Strict):
    """When a run ends before its last round; see `server_app.rounds.patience`.

    Attributes:
        patience: after how many rounds without a better validation score; None: never.
        metric: the score.
        min_delta: the difference that a better score needs more than.
    """

    patience: Annotated[int, Field(ge=1)] | None = None
    metric: Literal["accuracy", "loss"] = "accuracy"
    min_delta: Annotated[float, Field(ge=0)] = 0.0


class Experiment(LocalConfig):
    """The settings of a run: those of local training, and those that only the server uses."""

    alpha: Annotated[float, Field(gt=0)]
    rho: Annotated[float, Field(gt=0, le=1)]
    evaluate_every: Annotated[int, Field(ge=1)]
    engine: Literal["flower", "inprocess"]
    output_dir: str | None
    run_id: Annotated[str, Field(pattern=RUN_ID)] | None
    resume: str | None
    watch: Watch
    equations: Literal["paper", "release"]
    published: list[Table]
    without: Names
    sums: Sums
    strategy: Settings
    guard: Settings
    clock: Settings
    participation: Settings
    stop: Stop = Stop()
    federation: FederationConfig

    @property
    def participants(self) -> int:
        """The number of clients that a round samples."""
        from server_app.rounds.sampling import participant_count  # noqa: PLC0415

        return participant_count(self.num_clients, self.rho)

    @property
    def source_of_noise(self) -> str:
        """The setting that makes the run differentially private; empty if there is none."""
        if self.component("strategy").private:
            return f"strategy={self.strategy['name']}"
        return f"privacy.unit={self.privacy.unit}" if self.privacy.private else ""

    @property
    def client_names(self) -> Sequence[str]:
        """The name of each client's site, or its number in a simulation."""
        return self.partitioner().sites or [str(client) for client in range(self.num_clients)]

    @property
    def excluded(self) -> frozenset[int]:
        """The clients that take no part."""
        if not self.without:
            return frozenset()
        return frozenset(
            client for client, name in enumerate(self.client_names) if name in self.without
        )

    def local(self) -> LocalConfig:
        """Return the settings of local training, which are sent to the clients."""
        return self._local

    @cached_property
    def _local(self) -> LocalConfig:
        fields: dict[str, Any] = {name: getattr(self, name) for name in LocalConfig.model_fields}
        fields["model"] = without_weights(self.model)
        if not self.tuning().whole and WEIGHTS_HASH in self.model:
            fields["model"][WEIGHTS_HASH] = self.model[WEIGHTS_HASH]
        told = ("name", *self.component("after").told)
        fields["after"] = {key: self.after[key] for key in told}
        return LocalConfig.model_construct(**fields)  # the experiment's rules include theirs

    def with_constants(self, mean: Sequence[float], deviation: Sequence[float]) -> "Experiment":
        """Return the same experiment with the mean and deviation of each column of its data."""
        fields = {name: getattr(self, name) for name in Experiment.model_fields}
        measured = {"mean": list(mean), "deviation": list(deviation)}
        fields["data"] = {**self.data, MEASURED: measured}
        return Experiment.model_construct(**fields)

    def placed(self, directory: Path, *, resume: bool = False) -> "Experiment":
        """Return the same experiment for a given run directory.

        Args:
            directory: the run's, absolute.
            resume: whether the run exists and is to be resumed.
        """
        place = {"output_dir": str(directory.parent), "run_id": directory.name}
        return self.model_copy(update={**place, "resume": str(directory) if resume else None})
