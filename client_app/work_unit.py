"""A work unit: the clients that one message names, trained or scored one after another.

A client that fails is reported in its own row; the other clients of the unit continue.
"""

import logging
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from client_app.error_redaction import reason_for_server
from client_app.session import Session
from task.errors import ProtocolError, diverged
from task.exact_sum import NO_KEY, ExactSum, IntegerSum, new_sum
from task.models.layers.norm import with_second_moments
from task.progress import ClientTrained, emit
from task.protocol.evaluation import EvaluateReply, EvaluateRequest, EvaluateRow
from task.protocol.tensors import PackedTensors, check_tensors
from task.protocol.training import SUM, TrainReply, TrainRequest, TrainRow
from task.registry import named
from task.tensors import Tensors
from task.training.evaluation import Score
from task.training.loop import LocalResult

CLIP = "task.optim.update_norm:clip_result"
LEDGER = "client_app.budget:charge_round"  # imported at sites whose owners set a limit
ROUND = "client_app.rounded_update:rounded_result"
SPLIT = "client_app.rounded_update:without_error"
TRAIN_PURPOSE = "train"

logger = logging.getLogger("univarfl.client")


def train_clients(session: Session[TrainRequest]) -> TrainReply:
    """Train each client of the unit; return a row for each, and the models or their sum.

    Raises:
        ProtocolError: the request does not fit this worker.
    """
    request = session.request
    session.refuse_if_masked("an update")
    session.check_clients(request.clients)
    weights, broadcast = session.tensors(request.weights), request.broadcast.unpack()
    check_tensors(broadcast, session.worker.broadcast())
    outbox = (
        ModelSum(
            request, new_sum(session.config.secure, weights), broadcast,
            partial(session.rounding_key, TRAIN_PURPOSE),
        )
        if request.shares
        else SeparateModels()
    )  # fmt: skip
    rows = []
    most = session.max_norm(request.max_norm)

    def train(client: int, accepted: int) -> LocalResult:
        result = train_client(session, client, accepted, weights, broadcast)
        if most != math.inf:
            result = named(CLIP)(result, weights, most)
        outbox.add(client, result)
        return result

    for client, accepted in zip(request.clients, request.accepted, strict=True):
        rows.append(trained_row(session, client, partial(train, client, accepted)).model_dump())
    return TrainReply.to(request, rows=rows, weights=outbox.weights(), extra=outbox.extra())


def trained_row(session: Session[Any], client: int, train: Callable[[], LocalResult]) -> TrainRow:
    """Train a client, log it, and return its row, with the reason if it failed.

    Args:
        session: the request.
        client: the client.
        train: trains it, and returns what its row may tell.
    """
    started = time.perf_counter()
    device = session.worker.device.type
    try:
        result = train()
    except Exception as error:
        logger.exception("client %d failed in round %d", client, session.request.round)
        emit(ClientTrained(session.request.round))
        reason = reason_for_server(error, session.node_config) or "no reason given"
        return TrainRow(client=client, device=device, reason=reason)
    seconds = time.perf_counter() - started
    log_trained(session, result.examples, seconds)
    return TrainRow(
        client=client, device=device, examples=result.examples, seconds=seconds,
        losses=result.losses,
    )  # fmt: skip


def log_trained(session: Session[Any], examples: int, seconds: float) -> None:
    """Log that a client was trained; with noise at the clients without the number of images."""
    if session.worker.config.privacy.private:
        logger.info("round %d: trained in %.1f s", session.request.round, seconds)
        emit(ClientTrained(session.request.round))
    else:
        words = session.request.round, examples, seconds
        logger.info("round %d: trained on %d images in %.1f s", *words)
        emit(ClientTrained(*words))


def train_client(
    session: Session[Any],
    client: int,
    accepted: int,
    weights: Tensors,
    broadcast: Tensors,
) -> LocalResult:
    """Train one client, with its state of the round of its last accepted update.

    Raises:
        ProtocolError: this worker does not train that client, or the method trains nothing.
        SiteError: the site's privacy budget is spent.
        StateLostError, TrainingError: its state is missing, or training failed.
        SpaceError: the disk has no room for its next state.
    """
    request, worker = session.request, session.worker
    session.check_trained_here(client)
    if worker.method.closed_form:
        raise ProtocolError(f"method={worker.config.method['name']} trains nothing")
    train = partial(worker.train, weights, request.round, client)
    if not worker.config.models_kept:
        charge(session)
        result = train(broadcast=broadcast, deadline=session.deadline)
        return sent_result(session, result, weights, {})
    state = session.client_state()
    state.require_space()
    charge(session)
    kept: Tensors = state.load(client, accepted)
    error: Tensors = {}
    if worker.config.update.keeps_error:
        kept, error = named(SPLIT)(kept)
    result = sent_result(session, train(kept, broadcast, session.deadline), weights, error)
    state.keep(client, request.round, accepted, result.state)
    return result


def sent_result(
    session: Session[Any], result: LocalResult, start: Tensors, error: Tensors
) -> LocalResult:
    """Return what a client sends: with second moments if the server averages them, and rounded.

    Args:
        session: the request.
        result: of the client's training.
        start: the weights that it began with.
        error: what rounding changed in the client's last accepted update.
    """
    worker = session.worker
    if worker.config.network().statistics == "moments":
        result = replace(result, weights=with_second_moments(result.weights, start))
    if worker.config.update.rounded:
        rounded: LocalResult = named(ROUND)(result, start, error, worker)
        return rounded
    return result


def charge(session: Session[Any]) -> None:
    """Charge one round of training to the site's privacy ledger, if its owner sets a limit.

    Raises:
        SiteError: the round would exceed the limit, or the ledger is damaged.
        OSError: the images cannot be read, or the ledger cannot be written.
    """
    if session.site is not None and session.site.max_epsilon is not None:
        named(LEDGER)(session)


def score_rows(session: Session[EvaluateRequest]) -> Iterator[EvaluateRow]:
    """Yield the row of each client, with the reason if it has no score that can be sent."""
    request, worker = session.request, session.worker
    weights = session.tensors(request.weights)
    # The clients of one global model are scored together, which is faster.
    known = [client for client in request.clients if client in worker.data.clients]
    scores = (
        {} if worker.personal else dict(zip(known, worker.validate(weights, known), strict=True))
    )
    for client, accepted in zip(request.clients, request.accepted, strict=True):
        try:
            score = scores.get(client) or score_client(session, client, accepted, weights)
            row = score_row(client, score)
        except Exception as error:
            logger.exception("client %d is not scored", client)
            reason = reason_for_server(error, session.node_config) or "no reason given"
            row = EvaluateRow(client=client, reason=reason)
        yield row


def score_client(session: Session[Any], client: int, accepted: int, weights: Tensors) -> Score:
    """Score one client's model, which has a part of its own if the method keeps one.

    Raises:
        ProtocolError: this worker does not train that client.
        StateLostError: its part is missing.
    """
    state = personal_state(session, client, accepted)
    return session.worker.validate_personal(weights, client, state)


def personal_state(session: Session[Any], client: int, accepted: int) -> Tensors:
    """Return a client's state of the round of its last accepted update, if it has its own part.

    Raises:
        ProtocolError: this worker does not train that client.
        StateLostError: its state is missing.
    """
    session.check_trained_here(client)
    return session.client_state().load(client, accepted) if session.worker.personal else {}


def score_row(client: int, score: Score) -> EvaluateRow:
    """Return a client's score in the form of a message.

    Raises:
        TrainingError: the loss is not finite.
    """
    if not math.isfinite(score.loss):
        raise diverged("the validation loss is not finite")
    return EvaluateRow(
        client=client, examples=score.examples, correct=score.correct, loss=score.loss
    )


def evaluate_clients(session: Session[EvaluateRequest]) -> EvaluateReply:
    """Score the global weights, or each client's own model, on each client's validation images.

    Raises:
        ProtocolError: the request does not fit this worker.
    """
    request = session.request
    session.refuse_if_masked("a score")
    session.check_clients(request.clients)
    session.refuse_scores_with_noise()
    rows = []
    for row in score_rows(session):
        rows.append(row.model_dump())
        if not row.reason:
            logger.info("round %d: validated on %d images", request.round, row.examples)
    return EvaluateReply.to(request, rows=rows)


class SeparateModels:
    """The trained models, each by itself."""

    def __init__(self) -> None:
        self._weights: dict[str, PackedTensors] = {}
        self._extra: dict[str, PackedTensors] = {}

    def add(self, client: int, result: LocalResult) -> None:
        """Add a client's result."""
        self._weights[str(client)] = PackedTensors.of(result.sent)
        if result.extra:
            self._extra[str(client)] = PackedTensors.of(result.extra)

    def weights(self) -> dict[str, PackedTensors]:
        """Return the models by client."""
        return self._weights

    def extra(self) -> dict[str, PackedTensors]:
        """Return the method's additional tensors, by client."""
        return self._extra


class ModelSum:
    """The weighted sum of the trained models.

    Args:
        request: names the clients and their shares.
        total: an empty sum of models.
        broadcast: what the method's server update sent.
        key_of: returns what the random rounding of a client's numbers is drawn from.
    """

    def __init__(
        self,
        request: TrainRequest,
        total: IntegerSum,
        broadcast: Tensors,
        key_of: Callable[[int], bytes],
    ) -> None:
        self._shares = dict(zip(request.clients, request.shares, strict=True))
        self._weights, self._extra = total, ExactSum(broadcast)
        self._key_of = key_of

    def add(self, client: int, result: LocalResult) -> None:
        """Add a client's result.

        Raises:
            TrainingError: a number is too large for the sum; nothing was added.
        """
        share = self._shares[client]
        weights = self._weights.to_fixed_point(result.weights, share, self._key_of(client))
        extra = self._extra.to_fixed_point(result.extra, share, NO_KEY)
        self._weights.add(weights)
        self._extra.add(extra)

    def weights(self) -> dict[str, PackedTensors]:
        """Return the sum of the models; empty if every client failed."""
        return packed_sum(self._weights)

    def extra(self) -> dict[str, PackedTensors]:
        """Return the sum of what the method sends in addition; empty if there is nothing."""
        return packed_sum(self._extra)


def packed_sum(total: IntegerSum) -> dict[str, PackedTensors]:
    """Pack a sum under the key `SUM`; empty if nothing was added."""
    return {SUM: PackedTensors.of(total.totals)} if total.totals else {}
