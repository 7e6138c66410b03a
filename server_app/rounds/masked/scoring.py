"""Validation in a masked round: the server gets the sum of the clients' scores."""

from collections.abc import Sequence

from server_app.config.compatibility.masking import most_colluding, secure_threshold
from server_app.nodes.assignment import WorkUnit
from server_app.rounds.context import RoundContext
from server_app.rounds.masked.summing import MaskedSumming, new_scope, site_keys
from task.errors import ProtocolError
from task.protocol.masking.messages import SCORE
from task.secure.coordinator import Coordinator, TooFewError
from task.secure.vectors.score_vector import LENGTH, unpack_scores
from task.training.evaluation import Score

ATTEMPT = 1
VALIDATE = "validate"


def masked_scores(
    context: RoundContext, server_round: int, units: Sequence[WorkUnit]
) -> tuple[Score, int, list[str]]:
    """Return the sum of the clients' scores, how many it holds, and why others are not in it.

    Args:
        context: the run.
        server_round: the round.
        units: which worker has which clients; may be empty.
    """
    clients = sorted(client for unit in units for client in unit.clients)
    sizes = {client: context.sizes.validation[client] for client in clients}
    nothing = Score(0, 0, 0.0)
    if not clients:  # with noise at the clients no scores are asked for
        return nothing, 0, []
    scope = new_scope(context, server_round, ATTEMPT, VALIDATE)
    try:
        threshold = secure_threshold(context.experiment, len(clients))
    except ValueError as error:
        return nothing, 0, [f"validation: {error}"]
    keys = site_keys(context, units)
    colluding = most_colluding(context.experiment, len(clients))
    coordinator = Coordinator(scope, threshold, colluding, False, sizes, keys)
    summing = MaskedSumming(context, scope, units, coordinator, threshold, LENGTH)
    try:
        view = summing.prepare()
        summing.collect(SCORE, view, {})
        examples = sum(sizes[client] for client in summing.survivors)
        score = unpack_scores(summing.unmask(view), examples)
        if not (0 <= score.correct <= examples and score.loss >= 0):
            raise ProtocolError("no valid scores can have this sum")
    except (TooFewError, ProtocolError) as error:
        return nothing, 0, [f"validation: {error}"]
    reasons = sorted(summing.stages.reasons.items())
    failures = [f"validation of client {client}: {reason}" for client, reason in reasons]
    return score, len(summing.survivors), failures
