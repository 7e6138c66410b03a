"""How a round asks its clients: each for an update and scores of its own, or with masks."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from server_app.aggregation.accumulator import UpdateAccumulator
from server_app.aggregation.training_replies import add_reply
from server_app.nodes.assignment import WorkUnit
from server_app.nodes.failure import Failure
from server_app.rounds.context import RoundContext
from server_app.rounds.pace.training import filter_updates, sends_sum, train_requests
from task.errors import ProtocolError
from task.protocol.evaluation import EVALUATE, EvaluateReply, EvaluateRow
from task.protocol.training import TRAIN
from task.registry import named
from task.training.evaluation import Metrics, Score

OTHERS = {"masked": "server_app.rounds.masked.kind:MaskedRounds"}  # by secure.mode


@dataclass(frozen=True)
class ClientScores:
    """The scores of the global model on the clients' validation images.

    Attributes:
        total: their sum.
        count: the number of clients in it.
        each: each client's score, by client; empty with masks, which hide it.
        failures: why others have none.
    """

    total: Score
    count: int
    each: Mapping[int, Score]
    failures: Sequence[str]


class RoundKind:
    """Asks each client for an update and scores of its own.

    Args:
        context: the run.
    """

    def __init__(self, context: RoundContext) -> None:
        self.context = context

    @property
    def reply_bytes(self) -> int:
        """The size of one client's reply to a request to train."""
        return self.context.model.reply_bytes

    def recorded(self) -> dict[str, Any]:
        """Return the entries of ``run.json`` that describe this kind."""
        return {}

    def least(self, quorum: int, sampled: int) -> int:
        """Return how many updates an attempt needs.

        Args:
            quorum: how many the experiment wants.
            sampled: the number of the round's clients.
        """
        del sampled
        return quorum

    def keeps_the_model(self, accepted: int, quorum: int) -> bool:
        """Return whether a round whose attempts had too few updates ends, and the model stays."""
        del accepted, quorum
        return False

    def train(
        self,
        server_round: int,
        attempt: int,
        units: Sequence[WorkUnit],
        accumulator: UpdateAccumulator,
        least: int,
    ) -> Mapping[str, float]:
        """Have each unit's clients trained, and add their updates.

        Args:
            server_round: the round.
            attempt: the attempt at it.
            units: which worker has which clients.
            accumulator: takes the updates, and the outcome of each client.
            least: how many updates the attempt needs.

        Returns:
            The mean losses, if clients do not report them one by one.
        """
        del least
        context = self.context
        weights = context.model.packed_weights
        requests = train_requests(context, server_round, attempt, units, accumulator, weights)
        exchange = context.exchange(TRAIN, requests)
        for place, reply in exchange.arrivals():
            unit = units[place]
            add_reply(unit, reply, accumulator, sends_sum(accumulator.adds_up, unit.node))
        filter_updates(context, accumulator)
        context.late_replies.expect(exchange, units, f"model of round {server_round}")
        return {}

    def score(
        self, server_round: int, units: Sequence[WorkUnit], test: Callable[[], Metrics]
    ) -> tuple[Metrics, ClientScores]:
        """Have the clients score the global model.

        Args:
            server_round: the round.
            units: which worker has which clients; may be empty.
            test: what the server does while the clients work.

        Returns:
            What `test` returned, and the clients' scores.
        """
        context = self.context
        requests = context.addressed_requests(
            EVALUATE, units, server_round, partial(stateful_fields, context)
        )
        exchange = context.exchange(EVALUATE, requests)
        started = time.monotonic()
        metrics = test()
        exchange.extend(time.monotonic() - started)  # this takes no time from the clients
        scores, failures = read_scores(units, exchange.replies(), context.sizes.validation)
        context.late_replies.expect(exchange, units, f"validation of round {server_round}")
        total = sum(scores.values(), start=Score(0, 0, 0.0))
        return metrics, ClientScores(total, len(scores), scores, failures)


def kind_of(context: RoundContext) -> RoundKind:
    """Return the kind of a run's rounds; masks are imported only for a run that has them."""
    other = OTHERS.get(context.experiment.secure.mode)
    kind: RoundKind = named(other)(context) if other else RoundKind(context)
    return kind


def stateful_fields(context: RoundContext, unit: WorkUnit) -> dict[str, Any]:
    """Return the fields of a request to clients that score the model with a part of their own."""
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
