"""The updates of one server step, which started from weights of different rounds."""

from collections.abc import Sequence
from dataclasses import replace

from server_app.aggregation.client_update import ClientUpdate
from server_app.aggregation.strategies.families.buffered import BufferedSettings
from server_app.aggregation.training_replies import add_reply
from server_app.rounds.context import RoundContext
from server_app.rounds.pace.arrivals import Arrival, Job
from server_app.rounds.pace.received_weights import ReceivedWeights
from task.protocol.tensors import PackedTensors
from task.tensors import Tensors


class Buffer:
    """Adds the updates of a server step.

    Args:
        context: the run.
        strategy: its settings.
        received: the weights that clients started from.
        server_round: the round.

    Attributes:
        accumulator: the updates so far.
    """

    def __init__(
        self,
        context: RoundContext,
        strategy: BufferedSettings,
        received: ReceivedWeights,
        server_round: int,
    ) -> None:
        self._context, self._strategy, self._received = context, strategy, received
        self._round = server_round
        self._share_of = context.model.clients.shares_of_any(strategy.buffer_size)
        self._starts: dict[int, Tensors] = {server_round: context.model.weights}
        self._jobs: dict[int, Job] = {}  # by client
        self.accumulator = context.model.accumulator([], keep=False, rebase=self._rebased)

    @property
    def missing(self) -> int:
        """How many updates the server step still needs."""
        return self._strategy.buffer_size - len(self.accumulator.accepted)

    def start(self, server_round: int) -> Tensors:
        """Return the weights from which the clients of a round started.

        Raises:
            RunFailedError: they cannot be read.
        """
        if server_round not in self._starts:
            self._starts[server_round] = self._received.load(server_round)
        return self._starts[server_round]

    def packed_start(self, server_round: int) -> PackedTensors:
        """Return `start` in the form that is sent."""
        if server_round == self._round:
            return self._context.model.packed_weights
        return PackedTensors.of(self.start(server_round))

    def aged(self, jobs: Sequence[Job]) -> list[Job]:
        """Return the jobs, with those that are too old marked as lost."""
        return [replace(job, lost=job.lost or self._too_old(job)) for job in jobs]

    def _too_old(self, job: Job) -> str:
        """Return the reason for leaving out a client's update; empty if it is not too old."""
        most, behind = self._strategy.max_staleness, self._staleness(job)
        if most is None or behind <= most:
            return ""
        return f"too old: {behind} server steps behind, and strategy.max_staleness is {most}"

    def add(self, arrival: Arrival) -> None:
        """Add a worker's updates, or record which clients are left out or failed."""
        accumulator, sizes = self.accumulator, self._context.sizes.train
        jobs = self.aged(arrival.jobs)
        for job in jobs:
            client = job.client
            self._jobs[client] = job
            accumulator.expect(client, self._share_of(client), sizes[client])
            if job.lost:
                accumulator.refuse([ClientUpdate(client, "", left_out=True)], job.lost)
        if arrival.unit and arrival.reply and not any(job.lost for job in jobs):
            add_reply(arrival.unit, arrival.reply, accumulator, summed=False)
        for job in jobs:
            accumulator.describe(
                job.client,
                staleness=self._staleness(job),
                simulated_seconds=None if job.seconds is None else round(job.seconds, 3),
            )

    def _staleness(self, job: Job) -> int:
        return self._round - job.round

    def _rebased(self, client: int, weights: Tensors) -> Tensors:
        """Return the global weights plus the client's discounted change of its own start."""
        job = self._jobs[client]
        factor = self._strategy.step(self._staleness(job))
        if factor == 1 and job.round == self._round:
            return weights
        return rebased(weights, self.start(job.round), self.accumulator.before, factor)


def rebased(weights: Tensors, start: Tensors, now: Tensors, factor: float) -> Tensors:
    """Return ``now + factor * (weights - start)``, rounded once; integers stay as they are.

    Args:
        weights: a client's trained model.
        start: the weights that it started from.
        now: the global weights.
        factor: of its change.
    """
    moved = dict(weights)
    for name, value in weights.items():
        if value.is_floating_point():
            change = value.double() - start[name].double()
            moved[name] = (now[name].double() + factor * change).to(value.dtype)
    return moved
