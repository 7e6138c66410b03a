"""One round: check memory, sample, train, filter, aggregate, score."""

import time
from collections.abc import Sequence

from server_app.aggregation.client_update import ClientUpdate
from server_app.aggregation.guards.base import guard_of
from server_app.aggregation.strategies.base import strategy_of
from server_app.config.experiment import Experiment
from server_app.rounds.after.base import stage_of
from server_app.rounds.errors import RunFailedError
from server_app.rounds.evaluation import (
    NOT_SCORED,
    clients_of_final_scores,
    score_model,
    with_a_model,
)
from server_app.rounds.pace.base import Pace
from server_app.rounds.result import RoundModels, RoundResult
from task.machine.memory import available_bytes
from task.tensors import Tensors
from task.training.device import return_freed_memory

RESERVE = 200_000_000
MEGABYTE = 1e6
# A round's memory, in models: in any case; and for each participant if a guard or a strategy needs
# each update (`python -m benchmarks.aggregation_memory`; Krum needs the most).
ROUND_MODELS, MODELS_PER_HELD_UPDATE, MODELS_PER_STRATEGY_UPDATE = 8.0, 1.5, 2.5


def run_round(pace: Pace, server_round: int) -> RoundResult:
    """Run one round.

    Args:
        pace: the run's.
        server_round: the round, from 1.

    Raises:
        RunFailedError: memory is short, too few clients succeeded in every attempt, or the new
            weights are not finite.
        WorkerLostError: a simulated worker has died.
    """
    started = time.perf_counter()
    context, experiment, model = pace.context, pace.context.experiment, pace.context.model
    check_memory(server_round, bytes_per_round(experiment, model.weights))
    context.late_replies.drop_arrived()

    # Sample and train.
    keep_every = experiment.watch.models_every
    keep = keep_every is not None and server_round % keep_every == 0
    last = context.end.may_follow(server_round)
    needed = last and stage_of(experiment).needs_models
    received = model.weights
    gathered = pace.gather(server_round, keep or needed)
    accumulator = gathered.accumulator

    # Aggregate.
    model.update(server_round, accumulator, context.grid)
    updates = [accumulator.updates[client] for client in gathered.clients]
    train = {**gathered.metrics, **mean_losses(updates)}
    if (epsilon := context.privacy.epsilon) is not None:
        train["epsilon"] = epsilon
    if experiment.optim.varies:
        train["learning_rate"] = experiment.optim.rate(server_round, experiment.rounds)

    # Score, after the last round on every client, or on a sample of very many.
    scores = NOT_SCORED
    if last or server_round % experiment.evaluate_every == 0:
        scored = clients_of_final_scores(context)
        if not (last or context.end.all_validate) and experiment.validation_share:
            scored = with_a_model(context, gathered.scored)
        scores = score_model(pace.kind, server_round, scored)
        context.end.see(server_round, scores.validation)
    train["seconds"] = round(time.perf_counter() - started, 3)
    return RoundResult(
        server_round, context.end.rounds, updates,
        {"train": train, "validation": scores.validation, "test": dict(scores.test.means)},
        scores.test, scores.clients,
        RoundModels(received, accumulator.models, model.weights) if keep else None,
        context.seconds(), accumulator.models if needed else None,
    )  # fmt: skip


def mean_losses(updates: Sequence[ClientUpdate]) -> dict[str, float]:
    """Return the mean of each loss term over the images of the clients, and the clients' counts.

    They are the accepted clients that report the term.
    """
    accepted = [update for update in updates if update.accepted]
    means: dict[str, float] = {}
    for name in dict.fromkeys(name for update in accepted for name in update.losses):
        told = [update for update in accepted if name in update.losses]
        images = sum(update.examples for update in told)
        means[name] = sum(update.losses[name] * update.examples for update in told) / images
    left_out = sum(update.left_out for update in updates)
    counts = {"clients": len(accepted), "failed": len(updates) - len(accepted) - left_out}
    return {**means, **counts, **({"left_out": left_out} if left_out else {})}


def bytes_per_round(experiment: Experiment, weights: Tensors) -> int:
    """Return about how much memory a round needs in the server's process, in bytes.

    Args:
        experiment: what is run.
        weights: the global model's.
    """
    strategy = strategy_of(experiment)
    keeps = experiment.watch.models_every is not None or stage_of(experiment).needs_models
    per_update = MODELS_PER_HELD_UPDATE if keeps or guard_of(experiment).needs_each_update else 0.0
    if strategy.needs_each_update:
        per_update = MODELS_PER_STRATEGY_UPDATE
    updates = strategy.updates_together(experiment.participants)
    models = ROUND_MODELS + strategy.earlier_weights() + per_update * updates
    return int(models * sum(value.nbytes for value in weights.values()))


def check_memory(server_round: int, needed: int) -> None:
    """Refuse to start a round whose memory is not available.

    Args:
        server_round: the round.
        needed: an estimate, in bytes.

    Raises:
        RunFailedError: there is less.
    """
    available = available_bytes()
    if needed + RESERVE > available:
        # This process keeps the memory of earlier rounds, which counts as used.
        return_freed_memory()
        available = available_bytes()
    if needed + RESERVE > available:
        raise RunFailedError(
            f"round {server_round}: memory is short: a round needs about "
            f"{(needed + RESERVE) / MEGABYTE:,.0f} MB in the server's process, and "
            f"{available / MEGABYTE:,.0f} MB are left; choose a smaller rho or model, or "
            "strategy=fedavg with guard=none"
        )
