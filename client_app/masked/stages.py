"""The answers to the stages of a masked round.

A participant that refuses a stage says why in its own row; the others of its worker continue.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel

from client_app.error_redaction import reason_for_server
from client_app.masked.party import Party, continued, forget, new_party
from client_app.session import Session
from task.errors import ProtocolError
from task.privacy.settings import UNTOLD_IMAGES
from task.protocol.envelope import TableReply, TableRequest
from task.protocol.masking.messages import AgreeRequest, KeysRequest, SharesRequest, UnmaskRequest
from task.protocol.masking.rows import AgreeRow, KeysRow, SharesRow, UnmaskRow, from_hex, to_hex
from task.secure.rules.ledger import signed_survivors
from task.secure.transcript import Setup

logger = logging.getLogger("univarfl.client")

Asked = TypeVar("Asked", bound=TableRequest)


def keys(session: Session[KeysRequest]) -> TableReply:
    """Make new keys for an attempt at a round; those of an earlier one are forgotten."""
    forget(session.state)
    session.check_clients(session.request.clients)
    party = new_party(session, session.request.clients)
    data = session.worker.data

    def row(client: int) -> KeysRow:
        session.check_trained_here(client)
        split = data.clients[client]
        examples = len(split.train if party.scope.of_training else split.validation)
        told = told_examples(session, examples)
        signed = signed_survivors(party.ledger(client), party.scope)
        advert = party.participant(client).keys(party.scope, told)
        return KeysRow(client=client, advert=advert, signed=list(signed))

    rows = answered(session, "keys", row)
    party.save(session.state)
    return TableReply.to(session.request, rows=rows)


def shares(session: Session[SharesRequest]) -> TableReply:
    """Share the secrets of each participant among all others.

    Raises:
        ProtocolError: the weights are refused, or a participant is named twice.
    """
    request = session.request

    with continued(session) as party:
        setup = setup_of(party, request)
        check_weights(session, setup)

        def row(client: int) -> SharesRow:
            boxes = party.participant(client).share(setup)
            return SharesRow(client=client, boxes=to_hex(boxes))

        return TableReply.to(session.request, rows=answered(session, "shares", row))


def agree(session: Session[AgreeRequest]) -> TableReply:
    """Sign the survivors, after writing them down."""
    survivors = tuple(session.request.survivors)

    with continued(session) as party:

        def row(client: int) -> AgreeRow:
            signature = party.participant(client).agree(survivors, party.ledger(client))
            return AgreeRow(client=client, signature=signature.hex())

        return TableReply.to(session.request, rows=answered(session, "agree", row))


def unmask(session: Session[UnmaskRequest]) -> TableReply:
    """Reveal the shares that unmask the sum; then every secret is forgotten."""
    signatures = from_hex(session.request.signatures)

    try:
        with continued(session) as party:

            def row(client: int) -> UnmaskRow:
                revealed = party.participant(client).unmask(signatures)
                return UnmaskRow(
                    client=client,
                    seeds=to_hex(revealed.seeds),
                    mask_keys=to_hex(revealed.mask_keys),
                )

            return TableReply.to(session.request, rows=answered(session, "unmask", row))
    finally:
        forget(session.state)


def check_weights(session: Session[SharesRequest], setup: Setup) -> None:
    """Refuse a sum of updates whose weights could tell participants apart.

    Raises:
        ProtocolError: they differ, and the rounding or the site needs equal ones.
    """
    site = session.site
    if not setup.scope.of_training or setup.equal_weights:
        return
    if session.config.secure.rounding == "nearest":
        who = "with secure.rounding=nearest"
    elif site is not None and site.wants_equal_weights:
        who = f"site {site.name}: with its require-secure or equal-weights"
    else:
        return
    raise ProtocolError(f"{who}, all must weigh the same; add strategy.weighting=uniform")


def setup_of(party: Party, request: SharesRequest) -> Setup:
    """Return the participants and the threshold that a request names.

    Raises:
        ProtocolError: it names a participant twice.
    """
    adverts = {advert.client: advert for advert in request.adverts}
    if len(adverts) < len(request.adverts):
        raise ProtocolError("it names a participant twice")
    return Setup(
        party.scope,
        request.threshold,
        request.uniform,
        adverts,
        request.absent,
    )


def told_examples(session: Session[Any], examples: int) -> int:
    """Return the number of images that a client tells: its own, but not with noise at clients."""
    return UNTOLD_IMAGES if session.worker.config.privacy.private else examples


def answered(
    session: Session[Asked], stage: str, row: Callable[[int], BaseModel]
) -> list[dict[str, Any]]:
    """Return a row for each client of a request, with the reason where there is no answer.

    Args:
        session: the request.
        stage: its name, for the site's log.
        row: answers for one client.
    """
    rows: list[dict[str, Any]] = []
    request = session.request
    clients: Sequence[int] = request.clients
    logger.info("round %d, attempt %d: stage %s", request.round, request.attempt, stage)
    for client in clients:
        try:
            rows.append(row(client).model_dump())
        except Exception as error:
            logger.warning("client %d takes no part: %s", client, error)
            reason = reason_for_server(error, session.node_config) or "no reason given"
            rows.append({"client": client, "reason": reason})
    return rows
