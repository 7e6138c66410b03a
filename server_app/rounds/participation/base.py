"""The base class of the policies that say who takes part in a round."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from server_app.config.experiment import Experiment
from server_app.rounds.clock.base import clock_of
from server_app.rounds.sampling import draw, drawing
from task.errors import ConfigError

if TYPE_CHECKING:
    from server_app.rounds.devices.devices import Attempt, Devices


@dataclass(frozen=True)
class Clients:
    """The clients of a run, as a policy sees them.

    Attributes:
        number: how many there are.
        participants: how many of them a round wants.
        seed: the experiment's.
        devices: their simulated devices; None with ``clock=real``.
    """

    number: int
    participants: int
    seed: int
    devices: "Devices | None"


@dataclass(frozen=True)
class Cohort:
    """The clients of a round.

    Attributes:
        sampled: every client that is asked, ascending.
        ends: when the round ends, in simulated seconds since the run began.
        seconds: by client, the simulated seconds of its attempt; empty with ``clock=real``.
        left_out: by client, why its update does not count; the others are trained.
    """

    sampled: Sequence[int]
    ends: float = 0.0
    seconds: Mapping[int, float] = field(default_factory=dict)
    left_out: Mapping[int, str] = field(default_factory=dict)

    @property
    def trained(self) -> list[int]:
        """The clients that are trained, ascending."""
        return [client for client in self.sampled if client not in self.left_out]


@dataclass
class Participation(ABC):
    """The settings of one policy.

    A subclass is a dataclass whose fields are the settings of its YAML file.

    Attributes:
        needs_devices: whether it needs ``clock=virtual``.
        waits: whether it needs rounds in which the server waits for the clients; it is then refused
            with ``strategy=fedbuff``.
        uniform: whether every client is as likely as any other, as differential privacy assumes.
    """

    needs_devices: ClassVar[bool] = True
    waits: ClassVar[bool] = False
    uniform: ClassVar[bool] = False
    __pydantic_config__: ClassVar = {"extra": "forbid", "allow_inf_nan": False}

    def problems(self, experiment: Experiment) -> Iterator[ConfigError]:
        """Yield settings that do not fit this policy."""
        name = experiment.participation["name"]
        if self.needs_devices and not clock_of(experiment).virtual:
            allowed = "needs simulated devices: add clock=virtual, or participation=uniform"
            yield ConfigError("participation", name, allowed)
        if (noise := experiment.source_of_noise) and not self.uniform:
            allowed = f"{noise} counts on clients that are sampled alike; add participation=uniform"
            yield ConfigError("participation", name, allowed)

    @abstractmethod
    def candidates(
        self, clients: Clients, server_round: int, now: float
    ) -> NDArray[np.bool_] | None:
        """Return whether each client may be asked now, [K]; None if all may.

        Args:
            clients: all of them.
            server_round: the round, from 1.
            now: simulated seconds since the run began.
        """

    def starts(self, clients: Clients, now: float, idle: NDArray[np.bool_] | None = None) -> float:
        """Return when the next client can start, if nobody trains now.

        Args:
            clients: all of them.
            now: simulated seconds since the run began.
            idle: [K], which of them may start, at least one; None for all.
        """
        return now

    def wanted(self, clients: Clients) -> int:
        """Return how many clients a round asks."""
        return clients.participants

    def cohort(self, clients: Clients, server_round: int, now: float) -> Cohort:
        """Return the clients of a round that begins now or, if nobody can start, later."""
        now = self.starts(clients, now)
        candidates = self.candidates(clients, server_round, now)
        generator = drawing(clients.seed, server_round)
        sampled = draw(generator, clients.number, self.wanted(clients), candidates)
        if clients.devices is None:
            return Cohort(sampled)
        attempts = [clients.devices.attempt(client, server_round, now) for client in sampled]
        ends, left_out = self.cut(clients, attempts, now)
        if ends == now and len(left_out) == len(sampled):  # wait for one of them to come
            ends = clients.devices.next_available(now, np.array(sampled, dtype=np.int64))
        seconds = {each.client: min(each.seconds, ends - now) for each in attempts}
        return Cohort(sampled, ends, seconds, left_out)

    def cut(
        self, clients: Clients, attempts: "Sequence[Attempt]", now: float
    ) -> tuple[float, dict[int, str]]:
        """Return the end of a round, and by client the reason why its update does not count.

        Args:
            clients: all of them.
            attempts: those of the round's clients.
            now: when they began.
        """
        ends = max((each.ends for each in attempts), default=now)
        return ends, {each.client: each.reason for each in attempts if not each.arrives}


def policy_of(experiment: Experiment) -> Participation:
    """Return the policy that says who takes part in a round."""
    found: Participation = experiment.component("participation")
    return found
