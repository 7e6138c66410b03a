"""How updates arrive in a run whose server waits for no client."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from server_app.nodes.assignment import WorkUnit
from server_app.nodes.failure import Failure
from task.protocol.training import TrainReply


@dataclass(frozen=True)
class Job:
    """A client that trains.

    Attributes:
        client: the client.
        round: the round in which it was asked; it started from the weights before this round.
        ends: when its attempt ends, in simulated seconds since the run began; 0 at a site.
        seconds: how long it takes; None at a site.
        lost: why no update will arrive; empty if one will.
    """

    client: int
    round: int
    ends: float = 0.0
    seconds: float | None = None
    lost: str = ""


@dataclass(frozen=True)
class Arrival:
    """A worker's reply, or clients that will send none.

    Attributes:
        jobs: the clients.
        unit: what the worker was asked; None if the clients are left out.
        reply: the worker's answer, likewise.
    """

    jobs: Sequence[Job]
    unit: WorkUnit | None = None
    reply: TrainReply | Failure | None = None


class Arrivals(ABC):
    """Asks clients, and hands out their updates in the order in which they arrive.

    Attributes:
        now: simulated seconds since the run began; 0 at sites.
    """

    now: float = 0.0

    @abstractmethod
    def take(self, server_round: int, wanted: int, heard: Collection[int]) -> Iterator[Arrival]:
        """Yield updates of at most `wanted` clients; nothing if nobody can be asked any more.

        Args:
            server_round: the round.
            wanted: how many updates the buffer lacks.
            heard: the clients that the round has heard of already; they are not asked again.
        """

    @abstractmethod
    def rounds(self) -> set[int]:
        """Return the rounds in which the clients that train were asked."""

    def unused(self) -> Sequence[Job]:
        """Return the jobs of sites whose updates come after the last round."""
        return []

    def state(self) -> Mapping[str, Any]:
        """Return the state from which a resumed run continues the same jobs."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:  # noqa: B027  (sites are asked again)
        """Continue from what `state` returned."""
