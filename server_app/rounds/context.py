"""What every round of a run needs, and how many images each client has."""

import time
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from flwr.serverapp import Grid

from server_app.aggregation.global_model import GlobalModel
from server_app.config.experiment import Experiment
from server_app.nodes.assignment import WorkUnit
from server_app.nodes.late_replies import LateReplies
from server_app.nodes.manager import NodeManager, Note
from server_app.nodes.messages import AddressedRequest, Exchange, RunIdentity
from server_app.nodes.registration import NodeInfo
from task.data.federated import FederatedData
from task.privacy.settings import UNTOLD_IMAGES
from task.protocol.envelope import Kind, Reply, Request, TableRequest
from task.training.worker import Worker

MEGABYTE = 1_000_000
Asked = TypeVar("Asked", bound=Request)
AskedOfClients = TypeVar("AskedOfClients", bound=TableRequest)
Answer = TypeVar("Answer", bound=Reply)


class ClientSizes:
    """The clients' image counts: from the split in a simulation, else from the sites.

    Args:
        data: the server's data set and split; sites' clients are empty in it.
        told: whether clients report their image counts. If not, all count as equal.
        excluded: the clients that take no part, and so have no images.

    Attributes:
        train: by client, its training images; 0 for a site that has not come yet.
        validation: by client, its validation images, likewise.
    """

    def __init__(
        self, data: FederatedData, told: bool = True, excluded: frozenset[int] = frozenset()
    ) -> None:
        train, validation = data.clients.sizes()
        self._excluded = excluded
        for client in excluded:
            train[client] = validation[client] = 0
        if not told:
            train = np.where(train > 0, UNTOLD_IMAGES, 0)
        self.train = array("q", train.tobytes())
        self.validation = array("q", validation.tobytes())

    def update(self, nodes: Sequence[NodeInfo]) -> None:
        """Take over the counts that sites report."""
        for node in nodes:
            if node.site and node.index not in self._excluded:
                self.train[node.index] = node.train
                self.validation[node.index] = node.validation

    def images(self) -> list[int]:
        """Return each client's number of images, by client."""
        return list(map(sum, zip(self.train, self.validation, strict=True)))


class Account:
    """What a run has spent of its clients' privacy; nothing is counted without noise."""

    epsilon: float | None = None

    def charge(self, server_round: int) -> None:
        """Record one more attempt at a round, before the data are used.

        Args:
            server_round: the round, from 1; the attempts before it are at least as many.

        Raises:
            OSError: the record cannot be written.
        """


class RunEnd:
    """When a run ends: after all its rounds.

    Args:
        rounds: their number.

    Attributes:
        rounds: the number of the last round, as far as it is known.
        all_validate: whether all clients validate each evaluated model, also if a part trains.
    """

    all_validate = False

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds

    def may_follow(self, server_round: int) -> bool:
        """Return whether a round can be the last, before its model is scored."""
        return server_round >= self.rounds

    def see(self, server_round: int, validation: Mapping[str, float]) -> None:
        """Take the validation scores of an evaluated round, after which `rounds` may be lower."""

    def described(self) -> Mapping[str, Any]:
        """Return why the run ended early, for the record; empty if it did not."""
        return {}

    def state(self) -> Mapping[str, Any]:
        """Return what the next round needs, for a checkpoint."""
        return {}

    def restore(self, server_round: int, state: Mapping[str, Any]) -> None:
        """Continue from what `state` returned after a round."""


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
        privacy: what the run has spent.
        end: when the run ends.
        note: records an event; takes a site's name, empty for the run itself, and what happened.
        directory: the run's, for what must outlast this process.
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
    privacy: Account
    end: RunEnd
    note: Note
    directory: Path
    seconds_before: float = 0.0
    started: float = field(default_factory=time.perf_counter)

    @property
    def sites(self) -> Sequence[str]:
        """The names of the experiment's sites; empty in a simulation."""
        return self.experiment.partitioner().sites

    def connected(self) -> list[NodeInfo]:
        """Return the SuperNodes that are connected now, and learn the sizes of new ones."""
        nodes = self.nodes.connected()
        self.sizes.update(nodes)
        return nodes

    def request_fields(self, server_round: int, attempt: int = 1) -> dict[str, Any]:
        """Return the fields that every request of a round has."""
        return {
            "run": self.run.id,
            "experiment": self.run.experiment,
            "fingerprint": self.run.fingerprint,
            "round": server_round,
            "attempt": attempt,
            "seconds": self.experiment.federation.round_timeout,
        }

    def accepted(self, clients: Sequence[int]) -> list[int]:
        """Return the round of each client's last accepted update; 0 for none."""
        return [self.model.last_accepted[client] for client in clients]

    def addressed_requests(
        self,
        kind: Kind[AskedOfClients, Answer],
        units: Sequence[WorkUnit],
        server_round: int,
        fields: Callable[[WorkUnit], dict[str, Any]],
        attempt: int = 1,
    ) -> list[AddressedRequest[AskedOfClients]]:
        """Return the request for each work unit.

        Args:
            kind: the kind of message.
            units: whom to ask.
            server_round: the round.
            fields: what a unit's request has besides its clients and `request_fields`.
            attempt: the attempt at the round.
        """
        common = self.request_fields(server_round, attempt)
        return [
            AddressedRequest(
                unit.node.node_id,
                kind.request(**common, clients=unit.clients, **fields(unit)),
                unit.node.public_key,
            )
            for unit in units
        ]

    def exchange(
        self, kind: Kind[Asked, Answer], requests: Sequence[AddressedRequest[Asked]]
    ) -> Exchange[Asked, Answer]:
        """Send requests whose replies are waited for until the round's timeout."""
        timeout = self.experiment.federation.round_timeout
        return Exchange(self.grid, kind, requests, timeout, simulated=not self.sites)

    def clients_per_reply(self, size: int) -> int:
        """Return how many clients may share a reply that has `size` bytes for each of them."""
        return max(1, int(self.experiment.federation.message_megabytes * MEGABYTE // size))

    def note_client(self, client: int, event: str) -> None:
        """Record an event of a client: under its site's name, or with its number."""
        if self.sites:
            self.note(self.sites[client], event)
        else:
            self.note("", f"client {client}: {event}")

    def seconds(self) -> float:
        """Return the duration of the run's rounds up to now."""
        return self.seconds_before + time.perf_counter() - self.started
