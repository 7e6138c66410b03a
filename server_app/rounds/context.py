"""What every round of a run needs."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from flwr.serverapp import Grid

from server_app.aggregation.global_model import GlobalModel
from server_app.config.experiment import Experiment
from server_app.nodes.client_sizes import ClientSizes
from server_app.nodes.late_replies import LateReplies
from server_app.nodes.manager import NodeManager, Note
from server_app.nodes.messages import Exchange, Letter, RunIdentity
from task.protocol.messages import Kind, Reply, Request
from task.training.worker import Worker

Asked = TypeVar("Asked", bound=Request)
Answer = TypeVar("Answer", bound=Reply)


@dataclass(frozen=True)
class RoundContext:
    """The parts of a run that a round works with.

    Attributes:
        grid: the grid of the SuperNodes.
        run: the run's id and experiment.
        experiment: what is run.
        worker: the server's own, for testing.
        model: the global model.
        nodes: the SuperNodes.
        sizes: the clients' image counts.
        late_replies: names replies that come after their deadline.
        note: records an event; takes a site's name, empty for the run itself, and what happened.
        seconds_before: the duration of the rounds before this process started.
        started: when this process started its first round.
    """

    grid: Grid
    run: RunIdentity
    experiment: Experiment
    worker: Worker
    model: GlobalModel
    nodes: NodeManager
    sizes: ClientSizes
    late_replies: LateReplies
    note: Note
    seconds_before: float = 0.0
    started: float = field(default_factory=time.perf_counter)

    @property
    def sites(self) -> Sequence[str]:
        """The names of the experiment's sites; empty in a simulation."""
        return self.experiment.partitioner().sites

    def request_fields(self, server_round: int, attempt: int = 1) -> dict[str, Any]:
        """Return the fields that every request of a round has."""
        return {
            "run": self.run.id,
            "experiment": self.run.experiment,
            "fingerprint": self.run.fingerprint,
            "round": server_round,
            "attempt": attempt,
            "model_version": self.model.version,
            "seconds": self.experiment.federation.round_timeout,
        }

    def accepted(self, clients: Sequence[int]) -> list[int]:
        """Return the round of each client's last accepted update; 0 for none."""
        return [self.model.last_accepted[client] for client in clients]

    def exchange(
        self, kind: Kind[Asked, Answer], letters: Sequence[Letter[Asked]]
    ) -> Exchange[Asked, Answer]:
        """Send requests whose replies are waited for until the round's timeout."""
        timeout = self.experiment.federation.round_timeout
        return Exchange(self.grid, kind, letters, timeout, simulated=not self.sites)

    def seconds(self) -> float:
        """Return the duration of the run's rounds up to now."""
        return self.seconds_before + time.perf_counter() - self.started
