"""A round that uses the first updates that arrive, and waits for no client."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from server_app.aggregation.strategies.base import strategy_of
from server_app.aggregation.strategies.families.buffered import BufferedSettings
from server_app.nodes.assignment import WorkUnit, assign_clients
from server_app.nodes.messages import Exchange
from server_app.rounds.context import RoundContext
from server_app.rounds.errors import RunFailedError
from server_app.rounds.pace.arrivals import Arrival, Arrivals, Job
from server_app.rounds.pace.base import Gathered, Pace
from server_app.rounds.pace.buffer import Buffer
from server_app.rounds.pace.received_weights import ReceivedWeights, file_of_round
from server_app.rounds.pace.site_arrivals import SiteArrivals
from server_app.rounds.pace.training import clients_per_message, filter_updates, train_requests
from server_app.rounds.pace.virtual_arrivals import VirtualArrivals
from server_app.rounds.sampling import quorum_count
from server_app.runs.checkpoint import KEPT as CHECKPOINTS
from task.protocol.training import TRAIN, TrainReply, TrainRequest


class Buffered(Pace):
    """Fills a buffer with the updates that arrive.

    Args:
        context: the run.
    """

    def __init__(self, context: RoundContext) -> None:
        super().__init__(context)
        strategy = strategy_of(context.experiment)
        assert isinstance(strategy, BufferedSettings)
        # It keeps the weights that running jobs started from.
        self._strategy, self._received = strategy, ReceivedWeights(context.directory)
        self._ran_before: deque[set[int]] = deque(maxlen=CHECKPOINTS)
        self._buffer: Buffer  # of the round whose updates are gathered
        self._arrivals: Arrivals
        if self.clients.devices is None:
            self._arrivals = SiteArrivals(context, self._ask)
        else:
            self._arrivals = VirtualArrivals(
                self.clients, self.policy, self.clients.devices, self._train
            )

    def gather(self, server_round: int, keep: bool) -> Gathered:
        """Return a round's updates; settings that keep models are refused before the run."""
        self.context.privacy.charge(server_round)
        self._received.keep(server_round, self.context.model.weights)
        buffer = Buffer(self.context, self._strategy, self._received, server_round)
        self._buffer = buffer
        updates, heard = buffer.accumulator.updates, -1
        while buffer.missing and heard < len(updates):
            heard = len(updates)
            for arrival in self._arrivals.take(server_round, buffer.missing, updates):
                buffer.add(arrival)
        filter_updates(self.context, buffer.accumulator)
        self._check_quorum(server_round, len(buffer.accumulator.accepted))
        self._drop_received()
        stale = [update.staleness for update in updates.values() if update.accepted]
        staleness = {"staleness": sum(filter(None, stale)) / len(stale)} if stale else {}
        scored = sorted(buffer.accumulator.accepted)  # others may be at work
        return Gathered(buffer.accumulator, sorted(updates), scored, {**staleness, **self.time()})

    @property
    def now(self) -> float:
        return self._arrivals.now

    def state(self) -> Mapping[str, Any]:
        return self._arrivals.state()

    def restore(self, state: Mapping[str, Any]) -> None:
        self._arrivals.restore(state)
        self._ran_before.append(self._arrivals.rounds())

    def files(self) -> list[str]:
        started = {job["round"] for job in self.state().get("running", ())}
        return [file_of_round(server_round) for server_round in sorted(started)]

    def finish(self) -> None:
        for job in self._arrivals.unused():
            site = self.context.sites[job.client]
            what = f"its model of round {job.round} comes after the last server step: not used"
            self.context.note(site, what)
        self._received.delete()

    def _drop_received(self) -> None:
        """Delete weights that no running job started from, now or at a checkpoint that is kept."""
        running = self._arrivals.rounds()
        self._received.drop_others(running.union(*self._ran_before))
        self._ran_before.append(running)

    def _check_quorum(self, server_round: int, accepted: int) -> None:
        size = self._strategy.buffer_size
        wanted = quorum_count(self.context.experiment.federation.quorum, size)
        if accepted < wanted:
            raise RunFailedError(
                f"round {server_round}: {accepted} of {size} updates of the buffer, and the quorum "
                f"is {wanted} (federation.quorum): no other client can be asked"
            )

    def _ask(
        self, server_round: int, units: Sequence[WorkUnit]
    ) -> Exchange[TrainRequest, TrainReply]:
        """Send the requests of a round to sites."""
        packed = self.context.model.packed_weights
        addressed_requests = train_requests(
            self.context, server_round, 1, units, self._buffer.accumulator, packed
        )
        return self.context.exchange(TRAIN, addressed_requests)

    def _train(self, jobs: Sequence[Job]) -> Iterator[Arrival]:
        """Train clients, each from the weights of its own round, and yield their updates."""
        aged = self._buffer.aged(jobs)
        yield Arrival([job for job in aged if job.lost])
        by_client = {job.client: job for job in aged if not job.lost}
        if not by_client:
            return
        context, sizes = self.context, self.context.sizes.train
        nodes = context.nodes.wait_for_clients(list(by_client), 1)
        per_message = clients_per_message(context, False, self.kind.reply_bytes)
        by_round: dict[int, list[WorkUnit]] = {}
        for unit in assign_clients(list(by_client), sizes, nodes, per_message):
            of_round: dict[int, list[int]] = {}
            for client in unit.clients:
                of_round.setdefault(by_client[client].round, []).append(client)
            for number, clients in of_round.items():
                by_round.setdefault(number, []).append(WorkUnit(unit.node, clients))
        addressed_requests, asked = [], []
        for number, units in by_round.items():
            packed, into = self._buffer.packed_start(number), self._buffer.accumulator
            addressed_requests += train_requests(context, number, 1, units, into, packed)
            asked += units
        exchange = context.exchange(TRAIN, addressed_requests)
        for place, reply in exchange.arrivals():
            unit = asked[place]
            yield Arrival([by_client[client] for client in unit.clients], unit, reply)
