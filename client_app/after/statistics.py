"""The statistics of each class's features, which the server asks for after the last round."""

import logging
from functools import cache

from torch import Tensor

from client_app.after.features import LEAST_OF_CLASS, check_features
from client_app.after.sent_tensors import tensors_of_clients
from client_app.session import Session
from task.errors import SiteError
from task.protocol.after.statistics import (
    CLASSES,
    COUNTS,
    StatisticsReply,
    StatisticsRequest,
    statistics_bytes,
)
from task.tensors import Tensors
from task.training.after.statistics import feature_statistics

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
    # The clients of a request have one model.
    load = cache(lambda: session.worker.load(session.tensors(request.weights)))

    def statistics_of(client: int) -> Tensors:
        session.stage("ccvr")
        check_features(session, statistics_bytes(request.classes, request.features))
        load()
        return statistics_of_client(session, client)

    rows, sent = tensors_of_clients(session, statistics_of)
    return StatisticsReply.to(request, rows=rows, sent=sent)


def statistics_of_client(session: Session[StatisticsRequest], client: int) -> dict[str, Tensor]:
    """Return the statistics of one client, for the weights that the worker has loaded.

    Raises:
        ProtocolError: this worker does not train that client, or clients add noise.
        SiteError: the site's owner does not allow it.
    """
    worker = session.worker
    session.check_trained_here(client)
    positions = worker.images.index(worker.data.clients[client].train)
    least = LEAST_OF_CLASS if session.site else 1
    found = feature_statistics(worker.model, worker.images, positions, least)
    if not len(found[CLASSES]):
        raise SiteError(f"no class has the {least} images that statistics need")
    logger.info("statistics of the features of %d images", int(found[COUNTS].sum()))
    return found
