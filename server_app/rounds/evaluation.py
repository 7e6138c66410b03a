"""Scoring the global model: on the clients' validation images, and on the server's test images."""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from server_app.nodes.assignment import WorkUnit, assign_clients, served_clients
from server_app.nodes.failure import Failure
from server_app.rounds.context import RoundContext
from server_app.rounds.masked.scoring import masked_scores
from server_app.rounds.sampling import clients_to_score
from task.protocol.errors import ProtocolError
from task.protocol.evaluation import EVALUATE, EvaluateReply, EvaluateRow
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


def score_model(context: RoundContext, server_round: int, clients: Sequence[int]) -> ModelScores:
    """Score the global model; the server tests it while the clients validate it."""
    nodes = context.connected()
    here = served_clients(clients, nodes)
    units = assign_clients(here, context.sizes.validation, nodes, max(1, len(here)))
    last = server_round == context.experiment.rounds
    scores: dict[int, Score] = {}
    if context.experiment.secure.masked:
        metrics = context.worker.test(context.model.weights, by_class=last)
        total, count, failures = masked_scores(context, server_round, units)
    else:
        letters = context.letters(EVALUATE, units, server_round, partial(stateful_fields, context))
        exchange = context.exchange(EVALUATE, letters)
        started = time.monotonic()
        metrics = context.worker.test(context.model.weights, by_class=last)
        exchange.extend(time.monotonic() - started)  # this takes no time from the clients
        scores, failures = read_scores(units, exchange.replies(), context.sizes.validation)
        context.late_replies.expect(exchange, units, f"validation of round {server_round}")
        total, count = sum(scores.values(), start=Score(0, 0, 0.0)), len(scores)
    for failure in failures:
        logger.warning("round %d, %s", server_round, failure)
    return ModelScores({**total.means(), "clients": count}, metrics, scores)


def clients_of_final_scores(context: RoundContext) -> list[int]:
    """Return the clients that score the final model: all, or a sample of very many.

    Nobody does if no images are held out. A client that has a part of the model of its own does
    only if it has trained.
    """
    experiment = context.experiment
    if not experiment.validation_share:
        return []
    return with_a_model(context, clients_to_score(experiment.num_clients, experiment.seed))


def with_a_model(context: RoundContext, clients: Sequence[int]) -> list[int]:
    """Return the clients without those that keep a part of the model and have never trained."""
    if not context.experiment.local().personalised:
        return list(clients)
    return [client for client in clients if context.model.last_accepted[client]]


def stateful_fields(context: RoundContext, unit: WorkUnit) -> dict[str, Any]:
    """Return what a request needs for clients that score the model with a part of their own."""
    return {"accepted": context.accepted(unit.clients), "weights": context.model.packed_weights}


def read_scores(
    units: Sequence[WorkUnit],
    replies: Sequence[EvaluateReply | Failure],
    sizes: Sequence[int],
) -> tuple[dict[int, Score], list[str]]:
    """Return each client's validation score, by client, and why others have none.

    Args:
        units: what was asked.
        replies: each unit's answer.
        sizes: by client, its validation images.
    """
    found: dict[int, Score] = {}
    failures = []
    for unit, reply in zip(units, replies, strict=True):
        if isinstance(reply, Failure):
            failures.append(f"validation on {unit.node.name}: {reply.reason}")
            continue
        for client in unit.clients:
            try:
                found[client] = checked_score(reply.row(client), sizes[client])
            except ProtocolError as error:
                failures.append(f"validation of client {client}: {error}")
    return dict(sorted(found.items())), failures


def checked_score(row: EvaluateRow, size: int) -> Score:
    """Return the score that a row holds.

    Raises:
        ProtocolError: it is of another number of images than the client has.
    """
    if row.examples != size:
        raise ProtocolError(f"it reports {row.examples} validation images and has {size}")
    return Score(row.examples, row.correct, row.loss)
