"""One round: sample, train, filter, aggregate, score."""

import time
from collections.abc import Sequence
from typing import Any

from server_app.aggregation.accumulator import UpdateAccumulator
from server_app.aggregation.client_update import ClientUpdate
from server_app.aggregation.training_replies import add_reply
from server_app.nodes.assignment import WorkUnit, assign_clients
from server_app.nodes.messages import Letter
from server_app.nodes.registration import NodeInfo
from server_app.rounds.context import RoundContext
from server_app.rounds.errors import RunFailedError
from server_app.rounds.evaluation import (
    NOT_SCORED,
    clients_of_final_scores,
    score_model,
    with_a_model,
)
from server_app.rounds.masked.training import MaskedTraining
from server_app.rounds.memory_check import check_memory
from server_app.rounds.result import RoundModels, RoundResult
from server_app.rounds.sampling import quorum_count, sample_clients
from task.protocol.messages import TRAIN, TrainRequest
from task.protocol.tensors import PackedTensors

MEGABYTE = 1_000_000
ABSENT = "absent: its SuperNode is not connected, or was refused (see events.csv)"


def run_round(context: RoundContext, server_round: int) -> RoundResult:
    """Run one round.

    Args:
        context: the run.
        server_round: the round, from 1.

    Raises:
        RunFailedError: memory is short, too few clients succeeded in every attempt, or the new
            weights are not finite.
        WorkerLostError: a simulated worker has died.
    """
    started = time.perf_counter()
    experiment, model = context.experiment, context.model
    check_memory(server_round, model.bytes_per_round)
    context.late_replies.drop_arrived()

    # Sample.
    sampled = sample_clients(experiment.num_clients, experiment.rho, experiment.seed, server_round)
    quorum = quorum_count(experiment.federation.quorum, len(sampled))
    keep_every = experiment.watch.models_every
    keep = keep_every is not None and server_round % keep_every == 0
    last = server_round == experiment.rounds
    needed = last and experiment.after_training().needs_models
    received = model.weights

    accumulator, losses = train_round(context, server_round, sampled, quorum, keep or needed)

    # Aggregate.
    model.update(server_round, accumulator, context.grid)
    updates = [accumulator.updates[client] for client in sampled]
    train = {**losses, **mean_losses(updates)}
    privacy = experiment.privacy_spent(server_round)
    if isinstance(privacy.get("epsilon"), float):
        train["epsilon"] = privacy["epsilon"]
    if experiment.optim.schedule != "constant":
        train["learning_rate"] = experiment.optim.rate(server_round, experiment.rounds)

    # Score, after the last round on every client, or on a sample of very many.
    scores = NOT_SCORED
    if last or server_round % experiment.evaluate_every == 0:
        scored = clients_of_final_scores(context)
        if not last and experiment.validation_share:
            scored = with_a_model(context, sampled)
        scores = score_model(context, server_round, scored)
    train["seconds"] = round(time.perf_counter() - started, 3)
    return RoundResult(
        server_round, experiment.rounds, updates,
        {"train": train, "validation": scores.validation, "test": dict(scores.test.means)},
        scores.test, scores.clients, privacy,
        RoundModels(received, accumulator.models, model.weights) if keep else None,
        context.seconds(), accumulator.models if needed else None,
    )  # fmt: skip


def train_round(
    context: RoundContext, server_round: int, sampled: Sequence[int], quorum: int, keep: bool
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
    masked = experiment.secure.masked
    wanted = max(quorum, experiment.secure_threshold(len(sampled))) if masked else quorum
    accumulator = empty_accumulator(context, sampled, keep)
    losses: dict[str, float] = {}
    for attempt in range(1, settings.attempts + 1):
        nodes = context.nodes.wait_for_clients(sampled, wanted)
        context.sizes.update(nodes)
        accumulator = empty_accumulator(context, sampled, keep, accumulator)
        units = assign_clients(
            list(accumulator.shares),
            context.sizes.train,
            nodes,
            clients_per_message(context, accumulator),
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
    letters = train_letters(context, server_round, attempt, units, accumulator)
    exchange = context.exchange(TRAIN, letters)
    for place, reply in exchange.arrivals():
        unit = units[place]
        add_reply(unit, reply, accumulator, sends_sum(accumulator, unit.node))
    for scaled in accumulator.apply_filter():
        context.note("", f"client {scaled.client}: scaled by {scaled.scale:.3g}: {scaled.reason}")
    context.late_replies.expect(exchange, units, f"model of round {server_round}")


def empty_accumulator(
    context: RoundContext,
    sampled: Sequence[int],
    keep: bool,
    before: UpdateAccumulator | None = None,
) -> UpdateAccumulator:
    """Return an accumulator for the sampled clients whose number of images is known.

    Args:
        context: the run.
        sampled: the round's clients.
        keep: whether each client's model is kept.
        before: the earlier attempt's accumulator, if there was one. Its reasons stay, and none of
            its updates counts.
    """
    sites, sizes = context.sites, context.sizes.train
    known = [client for client in sampled if not sites or sizes[client]]
    accumulator = context.model.accumulator(known, keep)
    absent = [ClientUpdate(client, sites[client] if sites else "") for client in sampled]
    accumulator.refuse(absent, ABSENT)
    if before is not None:
        refused = {c: update for c, update in before.updates.items() if not update.accepted}
        accumulator.updates.update(refused)
    return accumulator


def clients_per_message(context: RoundContext, accumulator: UpdateAccumulator) -> int:
    """Return how many clients may share a reply; any number if only their sum is sent."""
    if accumulator.adds_up:
        return context.experiment.num_clients
    limit = context.experiment.federation.message_megabytes * MEGABYTE
    return max(1, int(limit // context.model.reply_bytes))


def sends_sum(accumulator: UpdateAccumulator, node: NodeInfo) -> bool:
    """Return whether a worker adds up its clients. A site's model is checked by itself."""
    return accumulator.adds_up and not node.site


def train_letters(
    context: RoundContext,
    server_round: int,
    attempt: int,
    units: Sequence[WorkUnit],
    accumulator: UpdateAccumulator,
) -> list[Letter[TrainRequest]]:
    """Return the request for each work unit."""
    strategy, broadcast = context.experiment.aggregation(), PackedTensors.of(accumulator.broadcast)

    def fields(unit: WorkUnit) -> dict[str, Any]:
        summed = sends_sum(accumulator, unit.node)
        return {
            "accepted": context.accepted(unit.clients),
            "shares": [accumulator.shares[client] for client in unit.clients] if summed else [],
            "max_norm": strategy.client_clipping_norm(),
            "weights": context.model.packed_weights,
            "broadcast": broadcast,
        }

    return context.letters(TRAIN, units, server_round, fields, attempt)


def mean_losses(updates: Sequence[ClientUpdate]) -> dict[str, float]:
    """Return the loss terms averaged over the accepted clients' images, and the clients' counts."""
    accepted = [update for update in updates if update.accepted]
    images = sum(update.examples for update in accepted)
    means: dict[str, float] = {}
    for name in accepted[0].losses if accepted else ():
        if all(name in update.losses for update in accepted):
            means[name] = sum(update.losses[name] * update.examples for update in accepted) / images
    return {**means, "clients": len(accepted), "failed": len(updates) - len(accepted)}
