"""The statistics of each class's features, which the server asks for after the last round."""

import logging

from torch import Tensor

from client_app.mods.error_redaction import reason_for_server
from client_app.session import Session
from task.errors import SiteError
from task.protocol.errors import ProtocolError
from task.protocol.messages import StatisticsReply, StatisticsRequest
from task.protocol.statistics import StatisticsRow
from task.protocol.tensors import PackedTensors
from task.training.features.statistics import feature_statistics, load

logger = logging.getLogger("univarfl.client")


def statistics_of_clients(session: Session[StatisticsRequest]) -> StatisticsReply:
    """Return the statistics of each client's training images under the global weights.

    A client that fails is reported in its own row.

    Raises:
        ProtocolError: the request does not fit this worker.
    """
    request = session.request
    session.refuse_if_masked("the statistics of features")
    session.check_clients(request.clients)
    load(session.worker, session.tensors(request.weights))
    rows, found = [], {}
    for client in request.clients:
        reason = ""
        try:
            found[str(client)] = PackedTensors.of(statistics_of_client(session, client))
        except Exception as error:
            logger.exception("client %d failed after round %d", client, request.round)
            reason = reason_for_server(error, session.node_config) or "no reason given"
        rows.append(StatisticsRow(client=client, reason=reason).model_dump())
    return StatisticsReply.to(request, rows=rows, statistics=found)


def check_allowed(session: Session[StatisticsRequest]) -> None:
    """Refuse statistics that reveal what the site's owner or the experiment protects.

    Raises:
        ProtocolError: clients add noise.
        SiteError: the site does not tell its statistics, or limits its privacy loss.
    """
    if session.worker.config.privacy.private:
        raise ProtocolError("statistics of its images are not sent with noise at the clients")
    site = session.site
    if site is not None and not site.tell_statistics:
        raise SiteError(
            f"site {site.name} does not send statistics of its images' features; its owner can set "
            "tell-statistics = true in site.toml"
        )
    if site is not None and site.max_epsilon is not None:
        raise SiteError(
            f"site {site.name} limits its privacy loss (its max-epsilon), and statistics of "
            "features have no noise"
        )


def statistics_of_client(session: Session[StatisticsRequest], client: int) -> dict[str, Tensor]:
    """Return the statistics of one client, for the weights that the worker has loaded.

    Raises:
        ProtocolError: this worker does not train that client, or clients add noise.
        SiteError: the site's owner does not allow it.
    """
    worker = session.worker
    check_allowed(session)
    if client not in worker.data.clients:
        raise ProtocolError(f"client {client} is not trained here")
    positions = worker.images.index(worker.data.clients[client].train)
    found = feature_statistics(worker.model, worker.images, positions)
    logger.info("statistics of the features of %d images", len(positions))
    return found
