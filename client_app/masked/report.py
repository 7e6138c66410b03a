"""The stage report: clients are trained or score the model, and the sum of it is masked."""

import logging
from dataclasses import replace
from functools import partial

import torch
from flwr.app import Context
from torch import Tensor

from client_app.masked.client_noise import add_client_noise, trained_or_unchanged
from client_app.masked.masked_sum import MaskedSum
from client_app.masked.party import continued
from client_app.masked.stages import answered, told_examples
from client_app.session import Session
from client_app.work_unit import trained_row
from task.protocol.errors import ProtocolError
from task.protocol.masking.messages import ReportReply, ReportRequest, ScoreReply, ScoreRequest
from task.protocol.masking.rows import ScoreRow
from task.protocol.tensors import PackedTensors
from task.secure.transcript import model_hash
from task.secure.vectors.score_vector import pack_score
from task.secure.vectors.update_vector import UpdateVector, counters
from task.training.loop import LocalResult

logger = logging.getLogger("univarfl.client")


def report(session: Session[ReportRequest], context: Context) -> ReportReply:
    """Train each client of the unit, and return the sum of their masked updates.

    Raises:
        ProtocolError: the request does not fit this worker.
    """
    request = session.request
    session.check_clients(request.clients)
    if request.shares or request.broadcast.data or any(request.accepted):
        raise ProtocolError("it sends weights of clients, has a server update, or names a state")
    start = session.tensors(request.weights)
    layout = UpdateVector(start, session.worker.masked_terms())
    most: dict[str, Tensor] = {}
    rows = []
    logger.info("round %d, attempt %d: stage report", request.round, request.attempt)
    with continued(session, context) as party:
        total = MaskedSum(
            party, request.members, request.boxes, model_hash(request.weights.data),
            request.max_norm,
        )  # fmt: skip

        def train(client: int) -> LocalResult:
            share = total.open(client)
            result, parts = trained_or_unchanged(session, client, start, layout, share)
            parts = add_client_noise(session, party, client, layout, start, parts, share)
            total.add(client, layout.pack(parts, result.losses, share))
            for name, value in counters(result.weights).items():
                most[name] = torch.maximum(most[name], value) if name in most else value
            # The losses are in the sum, and told nowhere else.
            return replace(result, examples=told_examples(session, result.examples), losses={})

        for client in request.clients:
            row = trained_row(session, client, partial(train, client))
            rows.append(row.model_dump())
    return ReportReply.to(
        request, rows=rows, masked=total.packed(), counters=PackedTensors.of(most)
    )


def score(session: Session[ScoreRequest], context: Context) -> ScoreReply:
    """Score the model on each client's validation images; return the masked sum.

    Raises:
        ProtocolError: the request does not fit this worker.
    """
    request = session.request
    session.check_clients(request.clients)
    session.refuse_scores_with_noise()
    weights = session.tensors(request.weights)
    with continued(session, context) as party:
        model = model_hash(request.weights.data)
        total = MaskedSum(party, request.members, request.boxes, model)

        def row(client: int) -> ScoreRow:
            total.open(client)
            session.check_trained_here(client)
            (found,) = session.worker.validate(weights, [client])
            total.add(client, pack_score(found))
            return ScoreRow(client=client)

        rows = answered(session, "score", row)
    return ScoreReply.to(request, rows=rows, masked=total.packed())
