"""The statistics of each class's features, which the server asks for after the last round."""

import hashlib
import logging

from torch import Tensor

from client_app.after.sent_tensors import tensors_of_clients
from client_app.client_state import DESCRIBED, ClientState
from client_app.session import Session
from task.errors import ProtocolError, SiteError
from task.protocol.after.statistics import (
    CLASSES,
    COUNTS,
    StatisticsReply,
    StatisticsRequest,
    statistics_bytes,
)
from task.site import Site
from task.tensors import Tensors
from task.training.after.statistics import feature_statistics

STATISTICS_OF = f"{DESCRIBED}statistics"  # the entry with the hash of the model that was described
LEAST_OF_CLASS = 20  # images; the mean of few would be close to one of them

logger = logging.getLogger("univarfl.client")


def statistics_of_clients(session: Session[StatisticsRequest]) -> StatisticsReply:
    """Return the statistics of each client's training images under the global weights.

    A client that fails is reported in its own row.

    Raises:
        ProtocolError: the request does not fit this worker.
    """
    session.refuse_if_masked("the statistics of features")
    session.check_clients(session.request.clients)

    def statistics_of(client: int) -> Tensors:
        check_allowed(session)
        session.worker.load(session.tensors(session.request.weights))
        return statistics_of_client(session, client)

    rows, sent = tensors_of_clients(session, statistics_of)
    return StatisticsReply.to(session.request, rows=rows, sent=sent)


def check_allowed(session: Session[StatisticsRequest]) -> None:
    """Refuse statistics that reveal what the site's owner or the experiment protects.

    Raises:
        ProtocolError: clients add noise.
        SiteError: the site does not tell its statistics, or limits its privacy loss.
    """
    session.stage("ccvr")
    request, worker = session.request, session.worker
    if worker.personal or not worker.config.network().trained_features:
        raise ProtocolError("no statistics are sent of a model with personal parts or no features")
    shape = worker.model.state_dict()["classifier.weight"].shape
    if shape != (request.classes, request.features):
        raise ProtocolError("it names other numbers of classes and features than the model has")
    if session.worker.config.privacy.private:
        raise ProtocolError("statistics of its images are not sent with noise at the clients")
    site = session.site
    if site is not None and not site.tell_statistics:
        raise SiteError(
            f"site {site.name} does not send statistics of its images' features; its owner can set "
            "tell-statistics = true in site.toml"
        )
    if site is not None:
        check_site(session, site)
    if site is not None and site.max_epsilon is not None:
        raise SiteError(
            f"site {site.name} limits its privacy loss (its max-epsilon), and statistics of "
            "features have no noise"
        )


def check_site(session: Session[StatisticsRequest], site: Site) -> None:
    """Refuse statistics that are too large, or of a second model in the same run.

    Raises:
        SiteError: they exceed the site's max-model-megabytes, or the site has sent those of another
            model.
    """
    request = session.request
    megabytes = statistics_bytes(request.classes, request.features) / 1e6
    if megabytes > site.max_model_megabytes:
        raise SiteError(
            f"site {site.name} sends at most {site.max_model_megabytes} MB (its "
            f"max-model-megabytes), and the statistics have up to {megabytes:,.0f} MB"
        )
    model = hashlib.sha256(request.weights.data).hexdigest()
    if ClientState(request.run, site=site).first(STATISTICS_OF, model) != model:
        raise SiteError(f"site {site.name} has sent statistics of another model in this run")


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
