"""The base class of the two ways to gather a round's updates."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from server_app.aggregation.accumulator import UpdateAccumulator
from server_app.rounds.clock.base import clock_of
from server_app.rounds.context import RoundContext
from server_app.rounds.kind import kind_of
from server_app.rounds.participation.base import Clients, policy_of


@dataclass(frozen=True)
class Gathered:
    """The updates of one round.

    Attributes:
        accumulator: the updates.
        clients: the round's clients, in the order of the record.
        scored: those of them that validate the model after the round.
        metrics: of the round: the mean losses if those are part of a masked sum, and the
            simulated seconds since the run began.
    """

    accumulator: UpdateAccumulator
    clients: Sequence[int]
    scored: Sequence[int]
    metrics: Mapping[str, float]


class Pace(ABC):
    """Gathers the updates of each round.

    Args:
        context: the run.
    """

    def __init__(self, context: RoundContext) -> None:
        self.context, self.kind = context, kind_of(context)
        experiment = context.experiment
        self.clock = clock_of(experiment)
        self.policy = policy_of(experiment)
        images = context.worker.data.clients.sizes().train  # also if clients do not tell them
        exchanged = context.model.request_bytes + self.kind.reply_bytes
        devices = self.clock.devices(experiment, images, exchanged)
        self.clients = Clients(
            experiment.num_clients, experiment.participants, experiment.seed, devices
        )

    @property
    @abstractmethod
    def now(self) -> float:
        """Simulated seconds since the run began; 0 with ``clock=real``."""

    @abstractmethod
    def gather(self, server_round: int, keep: bool) -> Gathered:
        """Return the updates of a round.

        Args:
            server_round: the round, from 1.
            keep: whether each client's model is kept.

        Raises:
            RunFailedError: too few clients succeeded.
            WorkerLostError: a simulated worker has died.
        """

    @abstractmethod
    def state(self) -> Mapping[str, Any]:
        """Return the state that the next round needs, for a checkpoint."""

    @abstractmethod
    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from what `state` returned."""

    def files(self) -> Sequence[str]:
        """Return the paths, in the run directory, of files that belong to `state`."""
        return ()

    def finish(self) -> None:  # noqa: B027  (most keep nothing)
        """Delete what was kept for the next round, and record what comes too late for the run."""

    def time(self) -> dict[str, float]:
        """Return the metric of the simulated seconds, if they are counted."""
        return {"simulated_seconds": round(self.now, 3)} if self.clock.virtual else {}
