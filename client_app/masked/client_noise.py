"""A client's part of the noise that protects all its data, added before its update is masked."""

import logging

from torch import Tensor

from client_app.masked.party import Party
from client_app.session import Session
from client_app.work_unit import train_client
from task.errors import ProtocolError, UntrainableDataError
from task.optim.update_norm import clip_result
from task.privacy.participant import protect_update
from task.protocol.masking.messages import ReportRequest
from task.secure.vectors.rounding import UNIT
from task.secure.vectors.update_vector import UpdateVector, has_counters
from task.seeding import repeatable_bytes, secret_bytes
from task.tensors import Tensors
from task.training.loop import LocalResult

logger = logging.getLogger("univarfl.client")


def trained_or_unchanged(
    session: Session[ReportRequest],
    client: int,
    start: Tensors,
    layout: UpdateVector,
    weight: float,
    key: bytes,
) -> tuple[LocalResult, dict[str, Tensor]]:
    """Train a client, and return its result and weight * its update in fixed point.

    With noise at the clients, a training that fails because of the client's images leaves the
    weights unchanged, so that the update has noise alone. If it were reported, the coordinator
    could choose weights that fail for one image only, and would learn of it without noise.

    Args:
        session: the request.
        client: the participant.
        start: the global weights.
        layout: puts updates into fixed point.
        weight: the update's.
        key: what rounding is drawn from.

    Raises:
        TrainingError: training failed; with noise at the clients for another reason.
        ProtocolError, SiteError, SpaceError: as for `train_client`.
    """
    try:
        result = train_client(session, client, 0, start, {})
        result = clip_result(result, start, largest_norm(session))
        return result, layout.fixed(result.weights, weight, key)
    except UntrainableDataError as error:
        if not session.worker.config.privacy.per_client:
            raise
        logger.warning("client %d sends noise alone: %s", client, error)
        unchanged = LocalResult(dict(start), examples=0, losses={}, state={}, extra={})
        return unchanged, layout.fixed(start, weight, key)


def largest_norm(session: Session[ReportRequest]) -> float:
    """Return the largest norm of an update that the request, the site and the noise allow."""
    privacy = session.worker.config.privacy
    norm = session.max_norm(session.request.max_norm)
    return min(norm, privacy.clipping_norm) if privacy.per_client else norm


def add_client_noise(
    session: Session[ReportRequest],
    party: Party,
    client: int,
    start: Tensors,
    parts: Tensors,
) -> dict[str, Tensor]:
    """Return an update clipped, and with noise; unchanged if clients add none.

    Args:
        session: the request.
        party: the participants of this worker.
        client: the participant.
        start: the global weights.
        parts: its update in fixed point.

    Raises:
        ProtocolError: clients weigh differently, or the model has counters, which have no noise.
        TrainingError: the noise would be too small for the fixed point.
    """
    config, request = session.worker.config, session.request
    privacy = config.privacy
    if not privacy.per_client:
        return dict(parts)
    if not party.equal_weights(client):
        raise ProtocolError("with privacy.unit=client all clients must weigh the same")
    if has_counters(start):
        raise ProtocolError("with privacy.unit=client a model with counters is not sent")
    key = request.round, request.attempt, client
    source = repeatable_bytes(config.seed, "client", *key) if privacy.reproducible else secret_bytes
    return protect_update(
        parts,
        UNIT,
        privacy.clipping_norm,
        privacy.noise_multiplier,
        party.honest(client),
        source,
    )
