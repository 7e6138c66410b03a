"""The sums of the columns of clients' rows, which the server asks for before round 1.

A site sends them only if its owner allows ``tell-statistics``, or masked.
"""

from typing import Any

import torch
from torch import Tensor

from client_app.after.sent_tensors import tensors_of_clients
from client_app.session import Session
from task.data.column_sums import column_sums
from task.data.sources.vectors import Vectors
from task.errors import ProtocolError
from task.protocol.columns import NAME, ColumnsReply, ColumnsRequest


def sums_of_clients(session: Session[ColumnsRequest]) -> ColumnsReply:
    """Return the sums of the columns of each client's rows.

    A client that fails is reported in its own row.

    Raises:
        ProtocolError: the request does not fit this worker.
    """
    session.refuse_if_masked("the sums of the columns")
    session.check_clients(session.request.clients)

    def sums_of(client: int) -> dict[str, Tensor]:
        source = checked_source(session)
        site = session.site
        if site is not None:
            site.check_telling("rows", ", or the experiment secure=masked")
        return {NAME: torch.from_numpy(own_sums(session, source, client))}

    rows, sent = tensors_of_clients(session, sums_of)
    return ColumnsReply.to(session.request, rows=rows, sent=sent)


def checked_source(session: Session[Any]) -> Vectors:
    """Return the experiment's data, if their columns may be summed up.

    Raises:
        ProtocolError: the experiment does not standardise by the clients' rows, or has done so;
            clients add noise; or it is another round than 1.
        SiteError: the site limits its privacy loss.
    """
    source = session.worker.config.source()
    if not isinstance(source, Vectors) or not source.asks_clients or source.measured is not None:
        raise ProtocolError("the experiment does not ask for sums of columns")
    if session.request.round != 1:
        raise ProtocolError("sums of columns are sent before round 1 alone")
    if session.worker.config.privacy.private:
        raise ProtocolError("sums of columns are not sent with noise at the clients")
    site = session.site
    if site is not None:
        cure = "use data.standardise=schema"
        site.check_without_noise(f"sums of columns have no noise; {cure}")
    return source


def own_sums(session: Session[Any], source: Vectors, client: int) -> Any:
    """Return the sums of all rows of a client: those to train and those to validate on.

    Raises:
        ProtocolError: the client is not trained here.
    """
    session.check_trained_here(client)
    data = session.worker.data
    own = data.clients[client].whole
    return column_sums(source.schema_content, data.dataset.images[own][:, 0, 0])
