"""A round that waits for its clients."""

from collections.abc import Mapping, Sequence
from typing import Any

from server_app.aggregation.accumulator import UpdateAccumulator
from server_app.aggregation.client_update import ClientUpdate
from server_app.nodes.assignment import assign_clients
from server_app.rounds.context import RoundContext
from server_app.rounds.errors import RunFailedError
from server_app.rounds.kind import RoundKind
from server_app.rounds.pace.base import Gathered, Pace
from server_app.rounds.pace.training import clients_per_message, empty_accumulator
from server_app.rounds.sampling import quorum_count


class Synchronous(Pace):
    """Asks a round's clients at once, and ends the round when all have answered.

    With a virtual clock, it is known before the training which updates arrive in time. So clients
    that are left out are not trained.
    """

    def __init__(self, context: RoundContext) -> None:
        super().__init__(context)
        self._now = 0.0

    @property
    def now(self) -> float:
        return self._now

    def state(self) -> Mapping[str, Any]:
        return {"now": self._now}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._now = float(state["now"])

    def gather(self, server_round: int, keep: bool) -> Gathered:
        cohort = self.policy.cohort(self.clients, server_round, self._now)
        self._now = cohort.ends
        accumulator, losses = train_round(self.kind, server_round, cohort.trained, keep)
        for client, reason in cohort.left_out.items():
            accumulator.refuse([ClientUpdate(client, "", left_out=True)], reason)
        for client, seconds in cohort.seconds.items():
            accumulator.describe(client, simulated_seconds=round(seconds, 3))
        metrics = {**losses, **self.time()}
        return Gathered(accumulator, cohort.sampled, cohort.trained, metrics)


def train_round(
    kind: RoundKind, server_round: int, sampled: Sequence[int], keep: bool
) -> tuple[UpdateAccumulator, Mapping[str, float]]:
    """Train the sampled clients, in several attempts if fewer than the quorum succeed.

    Every attempt asks all clients again. With masks it must, because the sums of two attempts
    would differ by single updates. Without masks it does so to end with the same model.

    Returns:
        The updates, and the mean losses if clients do not report them one by one.

    Raises:
        RunFailedError: too few clients succeeded in every attempt.
        WorkerLostError: a simulated worker has died.
    """
    context, settings = kind.context, kind.context.experiment.federation
    if not sampled:
        context.privacy.charge(server_round)
        return empty_accumulator(context, sampled, keep), {}
    quorum = quorum_count(settings.quorum, len(sampled))
    wanted = kind.least(quorum, len(sampled))
    accumulator = empty_accumulator(context, sampled, keep)
    losses: Mapping[str, float] = {}
    for attempt in range(1, settings.attempts + 1):
        nodes = context.nodes.wait_for_clients(sampled, wanted)
        context.privacy.charge(server_round)
        context.sizes.update(nodes)
        accumulator = empty_accumulator(context, sampled, keep, accumulator)
        units = assign_clients(
            list(accumulator.shares),
            context.sizes.train,
            nodes,
            clients_per_message(context, accumulator.adds_up, kind.reply_bytes),
        )
        losses = kind.train(server_round, attempt, units, accumulator, wanted)
        if (accepted := len(accumulator.accepted)) >= wanted:
            return accumulator, losses
        too_few = f"{accepted} of {len(sampled)} clients, and the quorum is {wanted}"
        context.note("", f"below the quorum: {too_few} (attempt {attempt} of {settings.attempts})")
    if kind.keeps_the_model(accepted, quorum):
        return accumulator, losses
    refused = (update for update in accumulator.updates.values() if not update.accepted)
    first = next((f"; client {update.client}: {update.reason}" for update in refused), "")
    raise RunFailedError(
        f"round {server_round}: {too_few} (federation.quorum) after {settings.attempts} attempts"
        f"{first}"
    )
