"""The whole configuration of a run, checked."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from server_app.strategies.base import StrategySettings
from task import registry
from task.config import LocalConfig, Settings, Strict


class FederationConfig(Strict):
    """Where clients are trained and how long the server waits for them."""

    workers: Annotated[int, Field(ge=1)] | None
    round_timeout: Annotated[float, Field(gt=0)]
    message_megabytes: Annotated[float, Field(gt=0, le=2000)]


class Experiment(LocalConfig):
    """Local training plus what the server alone decides. See ``conf/config.yaml`` for the keys."""

    alpha: Annotated[float, Field(gt=0)]
    rho: Annotated[float, Field(gt=0, le=1)]
    rounds: Annotated[int, Field(ge=1)]
    evaluate_every: Annotated[int, Field(ge=1)]
    engine: Literal["flower", "inprocess"]
    output_dir: str | None
    run_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")] | None
    strategy: Settings
    federation: FederationConfig

    @model_validator(mode="after")
    def _strategy_exists(self) -> "Experiment":
        self.aggregation()
        return self

    def aggregation(self) -> StrategySettings:
        """The aggregation strategy."""
        return registry.create("strategy", "server_app.strategies", StrategySettings, self.strategy)

    def local(self) -> LocalConfig:
        """The part that clients are told."""
        return LocalConfig.model_validate(self.model_dump(include=set(LocalConfig.model_fields)))
