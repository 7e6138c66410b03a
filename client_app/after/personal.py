"""The part of the model that each client keeps, for the run directory of a simulation."""

import logging

from client_app.mods.error_redaction import reason_for_server
from client_app.session import Session
from client_app.work_unit import personal_state
from task.errors import SiteError
from task.protocol.after.personal import PersonalReply, PersonalRequest
from task.protocol.after.sent_tensors import SentRow
from task.protocol.errors import ProtocolError
from task.protocol.tensors import PackedTensors

logger = logging.getLogger("univarfl.client")


def parts_of_clients(session: Session[PersonalRequest]) -> PersonalReply:
    """Return each client's part of the model, as the client is scored with it.

    A client that fails is reported in its own row.

    Raises:
        ProtocolError: the request does not fit this worker.
        SiteError: this is a site.
    """
    request = session.request
    if session.site is not None:
        raise SiteError(f"site {session.site.name} does not send its part of the model")
    session.refuse_if_masked("the part of the model")
    if not session.worker.personal:
        raise ProtocolError("no part of the model stays with the clients")
    weights = session.tensors(request.weights)
    rows, found = [], {}
    for client, accepted in zip(request.clients, request.accepted, strict=True):
        reason = ""
        try:
            state = personal_state(session, client, accepted)
            part = session.worker.personal_part(weights, client, state)
            found[str(client)] = PackedTensors.of(part)
        except Exception as error:
            logger.exception("client %d failed after round %d", client, request.round)
            reason = reason_for_server(error, session.node_config) or "no reason given"
        rows.append(SentRow(client=client, reason=reason).model_dump())
    return PersonalReply.to(request, rows=rows, sent=found)
