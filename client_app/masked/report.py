"""The stage report: clients are trained or score the model, and the sum of it is masked."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from client_app.masked.client_noise import add_client_noise, trained_or_unchanged
from client_app.masked.masked_sum import MaskedSum
from client_app.masked.party import continued
from client_app.masked.stages import answered, told_examples
from client_app.node import simulated
from client_app.session import Session
from client_app.work_unit import trained_row
from task.errors import ProtocolError, SiteError
from task.protocol.masking.messages import ReportReply, ReportRequest, ScoreReply, ScoreRequest
from task.protocol.masking.rows import ScoreRow
from task.secure.transcript import weights_hash
from task.secure.vectors.rounded_sum import check_numbers
from task.secure.vectors.score_vector import pack_score
from task.secure.vectors.update_vector import UpdateVector
from task.site import site_name
from task.tensors import Tensors
from task.training.loop import LocalResult

logger = logging.getLogger("univarfl.client")


def report(session: Session[ReportRequest]) -> ReportReply:
    """Train each client of the unit, and return the sum of their masked updates.

    Raises:
        ProtocolError: the request does not fit this worker.
    """
    request = session.request
    session.check_clients(request.clients)
    if request.shares or request.broadcast.data or any(request.accepted):
        raise ProtocolError("it sends weights of clients, has a server update, or names a state")
    start = session.tensors(request.weights)
    check_model(session, start)
    rule = session.worker.config.secure.rounding
    layout = UpdateVector(start, session.worker.masked_terms(), rule)
    if request.round == 1:
        check_first_model(session)
    rows = []
    logger.info("round %d, attempt %d: stage report", request.round, request.attempt)
    with continued(session) as party:
        total = MaskedSum(party, request.members, request.boxes, request.max_norm)

        def train(client: int) -> LocalResult:
            weight = total.open(client)
            key = session.rounding_key(request.purpose, client)
            with reasons_kept(session):
                result, parts = trained_or_unchanged(session, client, start, layout, weight, key)
                parts = add_client_noise(session, party, client, start, parts)
                total.add(client, layout.pack(parts, result.losses, weight, key))
            # The losses are in the sum, and told nowhere else.
            return replace(result, examples=told_examples(session, result.examples), losses={})

        for client in request.clients:
            row = trained_row(session, client, partial(train, client))
            rows.append(row.model_dump())
    return ReportReply.to(request, rows=rows, masked=total.packed())


def score(session: Session[ScoreRequest]) -> ScoreReply:
    """Score the model on each client's validation images; return the masked sum.

    Raises:
        ProtocolError: the request does not fit this worker.
    """
    request = session.request
    session.check_clients(request.clients)
    session.refuse_scores_with_noise()
    weights = session.tensors(request.weights)
    check_model(session, weights)
    with continued(session) as party:
        total = MaskedSum(party, request.members, request.boxes)

        def row(client: int) -> ScoreRow:
            session.check_trained_here(client)
            total.open(client)
            key = session.rounding_key(request.purpose, client)
            with reasons_kept(session):
                (found,) = session.worker.validate(weights, [client])
                total.add(client, pack_score(found, key))
            return ScoreRow(client=client)

        rows = answered(session, "score", row)
    return ScoreReply.to(request, rows=rows, masked=total.packed())


def check_model(session: Session[Any], weights: Tensors) -> None:
    """Refuse a model other than the one that keys were made for, or with too large numbers.

    Args:
        session: the request, a `task.protocol.masking.messages.MaskedRequest`.
        weights: the model.

    Raises:
        ProtocolError: it is another one, or has a number that masked sums do not take.
    """
    if weights_hash(weights) != session.request.model:
        raise ProtocolError("the model is not the one that keys were made for")
    check_numbers(weights)


def check_first_model(session: Session[Any]) -> None:
    """Refuse a model in round 1 that the experiment does not start from.

    Raises:
        ProtocolError: it is neither the seed's, nor the one whose hash the experiment has.
    """
    worker = session.worker
    expected = worker.config.secure.start or weights_hash(worker.initial_weights())
    if session.request.model != expected:
        raise ProtocolError(
            "round 1 starts from another model than the experiment's seed or model.weights gives"
        )


@contextmanager
def reasons_kept(session: Session[Any]) -> Iterator[None]:
    """Keep the reason of a failure from the coordinator, which chooses the model.

    The reason could tell it something of the images. A site writes it to its log, and tells the
    refusals of its own files. A simulated worker tells all reasons.

    Raises:
        SiteError: a site has failed.
    """
    try:
        yield
    except (SiteError, ProtocolError):
        raise
    except Exception as error:
        if simulated(session.node_config):
            raise
        name = site_name(session.node_config)
        raise SiteError(f"site {name} did not report; see the site's log") from error
