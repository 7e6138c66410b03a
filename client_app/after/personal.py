"""The part of the model that each client keeps: a simulated one sends it, a site writes it here."""

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path

from client_app.after.kept_parts import KeptParts
from client_app.after.sent_tensors import tensors_of_clients
from client_app.session import Session
from client_app.work_unit import personal_state
from task.errors import ProtocolError
from task.protocol.after.personal import PersonalReply, PersonalRequest
from task.site import Site
from task.tensors import Tensors

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
    if not session.worker.personal:
        raise ProtocolError("no part of the model stays with the clients")
    session.require_last_round("a part of the model is asked for")
    weights = session.tensors(request.weights)
    accepted = dict(zip(request.clients, request.accepted, strict=True))

    def part_of(client: int) -> Tensors:
        if not accepted[client]:
            raise ProtocolError("a client that has not trained has no part of the model")
        part = partial(own_part, session, weights, client, accepted[client])
        if session.site is None:
            return part()
        keep_at_site(session, session.site, client, part)
        return {}

    rows, sent = tensors_of_clients(session, part_of)
    return PersonalReply.to(request, rows=rows, sent=sent)


def own_part(
    session: Session[PersonalRequest], weights: Tensors, client: int, accepted: int
) -> Tensors:
    """Return a client's part of the model.

    Raises:
        ProtocolError, StateLostError: as for `personal_state`.
    """
    state = personal_state(session, client, accepted)
    return session.worker.personal_part(weights, client, state)


def keep_at_site(
    session: Session[PersonalRequest], site: Site, client: int, part: Callable[[], Tensors]
) -> None:
    """Write a site's part of the model, if its owner has named a directory for it.

    Raises:
        SiteError, OSError: as for `KeptParts.keep`.
    """
    if not site.models:
        logger.warning("site.toml names no models-dir: the site's part of the model is not kept")
        return
    kept = KeptParts(Path(site.models), session.request.run, site.keep_free_megabytes)
    kept.keep(client, session.request.model, part)
