"""The whole configuration of a run, checked."""

from importlib.util import find_spec
from typing import Annotated, Literal

from pydantic import Field, model_validator

from server_app.guards.base import Guard
from server_app.participation import participant_count
from server_app.published import Table
from server_app.strategies.base import StrategySettings
from task import registry
from task.config import LocalConfig, Settings, Strict
from task.errors import ConfigError


class FederationConfig(Strict):
    """Where clients are trained and how long the server waits for them."""

    workers: Annotated[int, Field(ge=1)] | None
    round_timeout: Annotated[float, Field(gt=0)]
    message_megabytes: Annotated[float, Field(gt=0, le=2000)]
    join_timeout: Annotated[float, Field(gt=0)]
    quorum: Annotated[float, Field(ge=0, le=1)]
    attempts: Annotated[int, Field(ge=1)]


class Watch(Strict):
    """What is kept of a run beside its record."""

    tensorboard: bool
    mlflow: str | None
    models_every: Annotated[int, Field(ge=1)] | None

    @model_validator(mode="after")
    def _installed(self) -> "Watch":
        if self.mlflow is not None and find_spec("mlflow") is None:
            raise ConfigError("watch.mlflow", self.mlflow, "needs MLflow: uv sync --extra mlflow")
        return self


class Experiment(LocalConfig):
    """Local training plus what the server alone decides. See ``conf/config.yaml`` for the keys."""

    alpha: Annotated[float, Field(gt=0)]
    rho: Annotated[float, Field(gt=0, le=1)]
    rounds: Annotated[int, Field(ge=1)]
    evaluate_every: Annotated[int, Field(ge=1)]
    engine: Literal["flower", "inprocess"]
    output_dir: str | None
    run_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*$")] | None
    resume: str | None
    watch: Watch
    published: list[Table]
    strategy: Settings
    guard: Settings
    federation: FederationConfig

    @model_validator(mode="after")
    def _server_fits(self) -> "Experiment":
        guard, strategy, name = self.guardian(), self.aggregation(), self.strategy["name"]
        try:
            strategy.check(self.participants, self.num_clients)
        except ConfigError as error:
            raise error.under("strategy") from None
        for member, method in zip(self.local_method().members(), self.methods(), strict=True):
            if member.server_half and not strategy.averages:
                allowed = (
                    f"method={method} corrects the mean of the clients' models, which this "
                    "strategy does not move to; choose strategy=fedavg or another mean"
                )
                raise ConfigError("strategy", name, allowed)
            if member.server_half and guard.shortens:
                allowed = (
                    f"method={method} has clients remember whole what they sent, of which the "
                    "server would take a part; choose guard=drop"
                )
                raise ConfigError("guard", self.guard["name"], allowed)
        if strategy.private and self.network().norm == "batch":
            allowed = "batch norm's statistics would tell of the data; add model.norm=group"
            raise ConfigError("strategy", name, allowed)
        if strategy.private and guard.looks:
            allowed = "who is dropped would tell of the data; add guard=none"
            raise ConfigError("guard", self.guard["name"], allowed)
        if (self.watch.models_every or 0) > self.rounds:
            allowed = f"would keep nothing of {self.rounds} rounds; choose that or fewer"
            raise ConfigError("watch.models_every", self.watch.models_every, allowed)
        if strategy.private and self.watch.models_every:
            allowed = f"a client's own model has no noise, so not with strategy={name}"
            raise ConfigError("watch.models_every", self.watch.models_every, allowed)
        return self

    @property
    def participants(self) -> int:
        """How many clients a round samples."""
        return participant_count(self.num_clients, self.rho)

    def aggregation(self) -> StrategySettings:
        """The aggregation strategy."""
        return registry.create("strategy", "server_app.strategies", StrategySettings, self.strategy)

    def guardian(self) -> Guard:
        """What judges a round's updates before they are aggregated."""
        return registry.create("guard", "server_app.guards", Guard, self.guard)

    def local(self) -> LocalConfig:
        """The part that clients are told."""
        return LocalConfig.model_validate(self.model_dump(include=set(LocalConfig.model_fields)))
