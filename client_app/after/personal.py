"""The part of the model that each client keeps: a simulated one sends it, a site writes it here."""

import logging
from pathlib import Path

from client_app.mods.error_redaction import reason_for_server
from client_app.session import Session
from client_app.work_unit import personal_state
from task.errors import SiteError
from task.files import make_private, write_whole
from task.methods.base import Tensors
from task.protocol.after.personal import PersonalReply, PersonalRequest
from task.protocol.after.sent_tensors import SentRow
from task.protocol.errors import ProtocolError
from task.protocol.tensors import PackedTensors
from task.training.personal.part_file import SUFFIX, part_file

HASH_DIGITS = 12  # of the model's hash in the name of a directory
MAX_MODELS = 10_000  # that a site keeps

logger = logging.getLogger("univarfl.client")


def parts_of_clients(session: Session[PersonalRequest]) -> PersonalReply:
    """Return each client's part of the model, as the client is scored with it.

    A site sends none, and keeps its part in the directory that its owner has named. A client that
    fails is reported in its own row.

    Raises:
        ProtocolError: the request does not fit this worker.
    """
    request = session.request
    session.check_clients(request.clients)
    if session.site is None:
        session.refuse_if_masked("the part of the model")
    if not session.worker.personal:
        raise ProtocolError("no part of the model stays with the clients")
    if request.round != session.worker.config.rounds:
        raise ProtocolError("a part of the model is asked for after the last round alone")
    weights = session.tensors(request.weights)
    rows, found = [], {}
    for client, accepted in zip(request.clients, request.accepted, strict=True):
        reason = ""
        try:
            state = personal_state(session, client, accepted)
            part = session.worker.personal_part(weights, client, state)
            if session.site is None:
                found[str(client)] = PackedTensors.of(part)
            elif session.site.models:
                keep(Path(session.site.models), request, client, part)
        except Exception as error:
            logger.exception("client %d failed after round %d", client, request.round)
            reason = reason_for_server(error, session.node_config) or "no reason given"
        rows.append(SentRow(client=client, reason=reason).model_dump())
    return PersonalReply.to(request, rows=rows, sent=found)


def keep(place: Path, request: PersonalRequest, client: int, part: Tensors) -> None:
    """Write a site's part of the model to ``KEY-HASH/CLIENT.safetensors``.

    KEY is the ``key`` of the ``run.json``, HASH the beginning of its ``model_sha256``. The key has
    letters, digits, ``_`` and ``-`` alone, so it cannot lead to another directory. With the hash, a
    request with an old key and another model overwrites nothing.

    Args:
        place: the directory of all models that the site keeps.
        request: names the run and the shared part.
        client: the site's number.
        part: the entries of the ``state_dict`` that are its own.

    Raises:
        SiteError: the site keeps too many models.
        OSError: it cannot be written.
    """
    directory = place / f"{request.run}-{request.model[:HASH_DIGITS]}"
    make_private(place)
    if not directory.exists() and sum(1 for _ in place.iterdir()) >= MAX_MODELS:
        raise SiteError(f"its models-dir has the models of {MAX_MODELS} runs; delete old ones")
    make_private(directory)
    path = directory / f"{client}{SUFFIX}"
    write_whole(path, part_file(part, request.model))
    logger.info("the site's part of the final model is in %s", path)
