"""Tensors of each client that a request names, and the reasons of those that have none."""

import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from client_app.error_redaction import reason_for_server
from client_app.session import Session
from task.protocol.after.sent_tensors import SentRow
from task.protocol.envelope import TableRequest
from task.protocol.tensors import PackedTensors
from task.tensors import Tensors

Asked = TypeVar("Asked", bound=TableRequest)

logger = logging.getLogger("univarfl.client")


def tensors_of_clients(
    session: Session[Asked], tensors_of: Callable[[int], Tensors]
) -> tuple[Sequence[dict[str, Any]], dict[str, PackedTensors]]:
    """Return a row for each client of a request, and the tensors of those that have some.

    A client that fails is reported in its own row.

    Args:
        session: the request.
        tensors_of: takes a client and returns its tensors; without tensors nothing is sent.
    """
    request = session.request
    rows, found = [], {}
    for client in request.clients:
        reason = ""
        try:
            if tensors := tensors_of(client):
                found[str(client)] = PackedTensors.of(tensors)
        except Exception as error:
            logger.exception("client %d failed after round %d", client, request.round)
            reason = reason_for_server(error, session.node_config) or "no reason given"
        rows.append(SentRow(client=client, reason=reason).model_dump())
    return rows, found
