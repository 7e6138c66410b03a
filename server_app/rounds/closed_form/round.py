"""The one round of a method that trains nothing."""

import time

from server_app.aggregation.client_update import ClientUpdate
from server_app.rounds.closed_form.classifier import solve
from server_app.rounds.evaluation import clients_of_final_scores, score_model
from server_app.rounds.pace.base import Pace
from server_app.rounds.result import RoundResult


def closed_form_round(pace: Pace, server_round: int) -> RoundResult:
    """Solve the classifier from sums of all clients' features, and score the model.

    Args:
        pace: the run's.
        server_round: the round, the only one.

    Raises:
        ConfigError, RunFailedError: as for `solve`.
    """
    started = time.perf_counter()
    context = pace.context
    experiment, model = context.experiment, context.model
    method = experiment.method
    context.privacy.charge(server_round)
    solved = solve(context, method.get("penalty"), f"method={method['name']}")
    model.weights = {key: solved.weights[key] for key in model.weights}
    scores = score_model(pace.kind, server_round, clients_of_final_scores(context))
    sites = context.sites
    updates = [
        ClientUpdate(
            client, sites[client] if sites else "", examples=solved.images.get(client, 0),
            reason=solved.missing.get(client, ""),
        )
        for client in sorted([*solved.images, *solved.missing])
    ]  # fmt: skip
    train = {
        "clients": len(solved.images),
        "failed": len(solved.missing),
        "seconds": round(time.perf_counter() - started, 3),
    }
    if (epsilon := context.privacy.epsilon) is not None:
        train["epsilon"] = epsilon
    return RoundResult(
        server_round, experiment.rounds, updates,
        {"train": train, "validation": scores.validation, "test": dict(scores.test.means)},
        scores.test, scores.clients, None, context.seconds(),
    )  # fmt: skip
