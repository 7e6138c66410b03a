"""A round that waits for its clients."""

from collections.abc import Mapping, Sequence
from typing import Any

from server_app.aggregation.accumulator import UpdateAccumulator
from server_app.aggregation.client_update import ClientUpdate
from server_app.aggregation.training_replies import add_reply
from server_app.nodes.assignment import WorkUnit, assign_clients
from server_app.rounds.context import RoundContext
from server_app.rounds.errors import RunFailedError
from server_app.rounds.masked.training import MaskedTraining
from server_app.rounds.pace.base import Gathered, Pace
from server_app.rounds.pace.training import (
    clients_per_message,
    empty_accumulator,
    filter_updates,
    sends_sum,
    train_letters,
)
from server_app.rounds.sampling import quorum_count
from task.protocol.training import TRAIN


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
        accumulator, losses = train_round(self.context, server_round, cohort.trained, keep)
        for client, reason in cohort.left_out.items():
            accumulator.refuse([ClientUpdate(client, "", left_out=True)], reason)
        for client, seconds in cohort.seconds.items():
            accumulator.describe(client, simulated_seconds=round(seconds, 3))
        metrics = {**losses, **self.time()}
        return Gathered(accumulator, cohort.sampled, cohort.trained, metrics)


def train_round(
    context: RoundContext, server_round: int, sampled: Sequence[int], keep: bool
) -> tuple[UpdateAccumulator, dict[str, float]]:
    """Train the sampled clients, in several attempts if fewer than the quorum succeed.

    Every attempt asks all clients again. With masks it must, because the sums of two attempts
    would differ by single updates. Without masks it does so to end with the same model.

    Returns:
        The updates, and the mean losses if those are part of the masked sum.

    Raises:
        RunFailedError: too few clients succeeded in every attempt.
        WorkerLostError: a simulated worker has died.
    """
    experiment, settings = context.experiment, context.experiment.federation
    if not sampled:
        context.privacy.charge(server_round)
        return empty_accumulator(context, sampled, keep), {}
    quorum = quorum_count(settings.quorum, len(sampled))
    masked = experiment.secure.masked
    wanted = max(quorum, experiment.secure_threshold(len(sampled))) if masked else quorum
    accumulator = empty_accumulator(context, sampled, keep)
    losses: dict[str, float] = {}
    for attempt in range(1, settings.attempts + 1):
        nodes = context.nodes.wait_for_clients(sampled, wanted)
        context.privacy.charge(server_round)
        context.sizes.update(nodes)
        accumulator = empty_accumulator(context, sampled, keep, accumulator)
        units = assign_clients(
            list(accumulator.shares),
            context.sizes.train,
            nodes,
            clients_per_message(context, accumulator.adds_up),
        )
        if masked:
            trial = MaskedTraining(context, server_round, attempt, units, accumulator, wanted)
            losses = trial.run()
        else:
            train_units(context, server_round, attempt, units, accumulator)
        if (accepted := len(accumulator.accepted)) >= wanted:
            return accumulator, losses
        too_few = f"{accepted} of {len(sampled)} clients, and the quorum is {wanted}"
        context.note("", f"below the quorum: {too_few} (attempt {attempt} of {settings.attempts})")
    if masked and accepted >= quorum:  # the model stays
        return accumulator, losses
    refused = (update for update in accumulator.updates.values() if not update.accepted)
    first = next((f"; client {update.client}: {update.reason}" for update in refused), "")
    raise RunFailedError(
        f"round {server_round}: {too_few} (federation.quorum) after {settings.attempts} attempts"
        f"{first}"
    )


def train_units(
    context: RoundContext,
    server_round: int,
    attempt: int,
    units: Sequence[WorkUnit],
    accumulator: UpdateAccumulator,
) -> None:
    """Have each unit's clients trained, and add their updates."""
    weights = context.model.packed_weights
    letters = train_letters(context, server_round, attempt, units, accumulator, weights)
    exchange = context.exchange(TRAIN, letters)
    for place, reply in exchange.arrivals():
        unit = units[place]
        add_reply(unit, reply, accumulator, sends_sum(accumulator.adds_up, unit.node))
    filter_updates(context, accumulator)
    context.late_replies.expect(exchange, units, f"model of round {server_round}")
