"""The configuration of a run: every value that ``conf/config.yaml`` has, checked."""

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator

from server_app.config.compatibility.client_models import check_client_models
from server_app.config.compatibility.server_steps import check_server_steps
from server_app.config.given_weights import without_weights
from server_app.config.tables import Table
from server_app.config.watch import Watch
from task.config import LocalConfig, Settings, Strict
from task.errors import ConfigError
from task.registry import create, first_error

if TYPE_CHECKING:  # these import PyTorch or Flower; see `task.config`
    from server_app.aggregation.guards.base import Guard
    from server_app.aggregation.strategies.base import StrategySettings
    from server_app.rounds.after.base import AfterTraining
    from server_app.rounds.clock.base import Clock
    from server_app.rounds.participation.base import Participation
    from task.models.base import ModelSettings


RUN_ID = r"^[A-Za-z0-9][A-Za-z0-9._+-]*$"
MOST_SECONDS = 1e9  # that a message may name


class FederationConfig(Strict):
    """The workers that train clients, and how long the server waits for them."""

    workers: Annotated[int, Field(ge=1)] | None
    round_timeout: Annotated[float, Field(gt=0, le=MOST_SECONDS)]
    message_megabytes: Annotated[float, Field(gt=0, le=2000)]
    join_timeout: Annotated[float, Field(gt=0, le=MOST_SECONDS)]
    quorum: Annotated[float, Field(ge=0, le=1)]
    attempts: Annotated[int, Field(ge=1)]


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
    strategy: Settings
    guard: Settings
    clock: Settings
    participation: Settings
    federation: FederationConfig

    @model_validator(mode="after")
    def _check_server_settings(self) -> "Experiment":
        """Refuse a strategy, guard or watch setting that does not fit the other settings."""
        check_client_models(self)
        strategy = self.aggregation()
        try:
            strategy.check_participants(self.participants, self.num_clients)
        except ConfigError as error:
            raise error.under("strategy") from None
        check_server_steps(self)
        if strategy.private:
            from server_app.config.compatibility.central_privacy import (  # noqa: PLC0415
                check_central_privacy,
            )

            check_central_privacy(self)
        elif self.privacy.reproducible and not self.privacy.private:
            allowed = (
                "there is no noise to reproduce; choose privacy=example or client, or "
                "strategy=dp_fixed, or leave it out"
            )
            raise ConfigError("privacy.reproducible", True, allowed)
        if self.secure.rounded:
            self._check_rounded()
        if strategy.buffered:
            from server_app.config.compatibility.buffered import check_buffered  # noqa: PLC0415

            check_buffered(self)
        self.clients_clock().check(self)
        self.participation_policy().check(self)
        self.after_training().check(self)
        return self

    def _check_rounded(self) -> None:
        from server_app.config.compatibility.masking import check_rounded  # noqa: PLC0415

        check_rounded(self)

    @property
    def participants(self) -> int:
        """The number of clients that a round samples."""
        from server_app.rounds.sampling import participant_count  # noqa: PLC0415

        return participant_count(self.num_clients, self.rho)

    @property
    def timed(self) -> bool:
        """Whether clients start and end at times of their own, which the record has."""
        return self.clients_clock().virtual or self.aggregation().buffered

    def aggregation(self) -> "StrategySettings":
        """Return the aggregation strategy."""
        from server_app.aggregation.strategies.base import StrategySettings  # noqa: PLC0415

        return self._component("strategy", StrategySettings)

    def update_guard(self) -> "Guard":
        """Return the guard, which decides what counts of each update before aggregation."""
        from server_app.aggregation.guards.base import Guard  # noqa: PLC0415

        return self._component("guard", Guard)

    def after_training(self) -> "AfterTraining":
        """Return the stage after the last round, which may change the global model."""
        from server_app.rounds.after.base import AfterTraining  # noqa: PLC0415

        return self._component("after", AfterTraining)

    def clients_clock(self) -> "Clock":
        """Return the clock that counts the clients' seconds."""
        from server_app.rounds.clock.base import Clock  # noqa: PLC0415

        return self._component("clock", Clock)

    def participation_policy(self) -> "Participation":
        """Return the policy that says who takes part in a round."""
        from server_app.rounds.participation.base import Participation  # noqa: PLC0415

        return self._component("participation", Participation)

    def _known(self, clients: int) -> int:
        """Return from how many participants threshold and colluders follow; sites know all."""
        return self.num_clients if self.partitioner().sites else clients

    def most_colluding(self, clients: int) -> int:
        """Return how many participants of a masked sum may work with the coordinator.

        Args:
            clients: how many are asked.
        """
        from task.secure.rules.threshold import colluding_of  # noqa: PLC0415

        return colluding_of(self._known(clients), self.secure.colluding)

    def secure_threshold(self, clients: int) -> int:
        """Return how many participants a masked sum needs.

        Sites compute it from their rosters, so it is the same however many of them are asked.

        Args:
            clients: how many are asked.

        Raises:
            ValueError: they are too few.
        """
        from task.secure.rules.threshold import threshold_of  # noqa: PLC0415

        everyone = self._known(clients)
        needed = threshold_of(everyone, self.secure.colluding)
        if clients < needed:
            raise ValueError(f"{clients} of {everyone} sites are below the threshold of {needed}")
        return needed

    def local(self) -> LocalConfig:
        """Return the settings of local training, which are sent to the clients."""
        return self._local

    def network(self) -> "ModelSettings":
        """Return the settings of the network, without the weights that it starts from."""
        from task.models.base import ModelSettings  # noqa: PLC0415

        return create("model", ModelSettings, without_weights(self.model))

    @cached_property
    def _local(self) -> LocalConfig:
        fields: dict[str, Any] = {name: getattr(self, name) for name in LocalConfig.model_fields}
        fields["model"] = without_weights(self.model)
        told = ("name", *self.after_training().told)
        fields["after"] = {key: self.after[key] for key in told}
        return LocalConfig.model_construct(**fields)  # every value has been checked here

    def placed(self, directory: Path, *, resume: bool = False) -> "Experiment":
        """Return the same experiment for a given run directory.

        Args:
            directory: the run's, absolute.
            resume: whether the run exists and is to be resumed.
        """
        place = {"output_dir": str(directory.parent), "run_id": directory.name}
        return self.model_copy(update={**place, "resume": str(directory) if resume else None})


def read_experiment(text: str) -> Experiment:
    """Read a resolved experiment from JSON.

    Raises:
        ConfigError: a key or value is not allowed.
    """
    try:
        return Experiment.model_validate_json(text)
    except ValidationError as error:
        raise first_error(error) from None
