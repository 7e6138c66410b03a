"""Scoring the global model: on the clients' validation images, and on the server's test images."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from server_app.nodes.assignment import units_of_served
from server_app.rounds.context import RoundContext
from server_app.rounds.kind import RoundKind
from server_app.rounds.sampling import clients_to_score
from task.training.evaluation import Metrics, Score

logger = logging.getLogger("univarfl")


@dataclass(frozen=True)
class ModelScores:
    """The scores of the global model after a round.

    Attributes:
        validation: accuracy and loss over the clients' validation images, and ``clients``, the
            number of those that answered; empty if the model was not scored.
        test: every metric on the test set, after the last round by class, too.
        clients: each client's validation score; empty with masks, which hide it.
    """

    validation: Mapping[str, float]
    test: Metrics
    clients: Mapping[int, Score]


NOT_SCORED = ModelScores({}, Metrics({}, {}), {})


def score_model(kind: RoundKind, server_round: int, clients: Sequence[int]) -> ModelScores:
    """Score the global model; the server tests it while the clients validate it."""
    context = kind.context
    nodes = context.connected()  # which learns the sizes of new ones
    units = units_of_served(clients, context.sizes.validation, nodes)
    last = context.end.may_follow(server_round)
    metrics, found = kind.score(
        server_round, units, lambda: context.worker.test(context.model.weights, by_class=last)
    )
    for failure in found.failures:
        logger.warning("round %d, %s", server_round, failure)
    return ModelScores({**found.total.means(), "clients": found.count}, metrics, found.each)


def clients_of_final_scores(context: RoundContext) -> list[int]:
    """Return the clients that score the final model: all, or a sample of very many.

    Nobody does if no images are held out. A client that has a part of the model of its own does
    only if it has trained.
    """
    experiment = context.experiment
    if not experiment.validation_share:
        return []
    scored = clients_to_score(experiment.num_clients, experiment.seed)
    excluded = experiment.excluded
    return with_a_model(context, [client for client in scored if client not in excluded])


def with_a_model(context: RoundContext, clients: Sequence[int]) -> list[int]:
    """Return the clients without those that keep a part of the model and have never trained."""
    if not context.experiment.local().personalised:
        return list(clients)
    return [client for client in clients if context.model.last_accepted[client]]
