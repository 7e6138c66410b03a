"""Sums of clients' features, from which the server solves a classifier."""

import logging
from functools import cache
from typing import Any

from torch import Tensor

from client_app.after.features import LEAST_OF_CLASS, check_features
from client_app.after.sent_tensors import tensors_of_clients
from client_app.session import Session
from client_app.work_unit import charge
from task.errors import ProtocolError, SiteError
from task.methods.families.closed_form import ClosedForm
from task.protocol.after.sums import SUMS, SumsReply, SumsRequest
from task.registry import named
from task.tensors import Tensors
from task.training.after.sums import feature_sums

WITH_NOISE = "client_app.after.noisy_sums:with_noise"

logger = logging.getLogger("univarfl.client")


def sums_of_clients(session: Session[SumsRequest]) -> SumsReply:
    """Return the sums over each client's training images under the global weights.

    A client that fails is reported in its own row.

    Raises:
        ProtocolError: the request does not fit this worker.
    """
    request = session.request
    session.refuse_if_masked("the sums of features")
    session.check_clients(request.clients)
    # The clients of a request have one model.
    load = cache(lambda: session.worker.load(session.tensors(request.weights)))

    def sums_of(client: int) -> Tensors:
        check_asked(session)
        load()
        return {SUMS: sums_of_client(session, client)}

    rows, sent = tensors_of_clients(session, sums_of)
    return SumsReply.to(request, rows=rows, sent=sent)


def check_asked(session: Session[Any]) -> None:
    """Refuse sums that the experiment does not need, or that are not to be told.

    Args:
        session: the request, a `SumsRequest` or its form with masks.

    Raises:
        ProtocolError, SiteError: as for `check_features`.
    """
    method, products = session.worker.method, session.request.products
    if not isinstance(method, ClosedForm):
        session.stage("ridge")
    elif products and not method.needs_products:
        raise ProtocolError("the experiment's method needs no products of features")
    else:
        session.require_last_round("sums of features are sent")
    check_features(session, session.request.form.bytes)


def sums_of_client(session: Session[Any], client: int, honest: int = 1) -> Tensor:
    """Return the sums of one client, for the weights that the worker has loaded.

    With noise they are of every image, whatever its class: a least number of images in a class
    would let one image decide on others.

    A site's sums are of all its images, those for validation too. The difference of the sums of two
    runs that hold out other images would be the features of these images.

    Args:
        session: the request.
        client: the client.
        honest: with privacy for clients, how many participants' noise protects it together.

    Raises:
        ProtocolError: this worker does not train that client.
        SiteError: the site's privacy budget is spent, or sums have noise and it has none; no class
            has enough images at this site, or copies of images are left out.
    """
    worker = session.worker
    session.check_trained_here(client)
    private = worker.config.privacy.private
    own, least = worker.data.clients[client], 1
    chosen = own.train
    if session.site:
        least, chosen = LEAST_OF_CLASS, own.whole
        if private and session.site.max_epsilon is None:  # the ledger checks that there is noise
            raise SiteError(
                f"site {session.site.name} sends sums with noise only with max-epsilon in site.toml"
            )
        if worker.config.data.get("duplicates", "note") != "note":
            raise SiteError(
                "sums of features are of all images of a site; leave data.duplicates out"
            )
    positions = worker.images.index(chosen)
    if private:
        charge(session)
        found = feature_sums(worker.model, worker.images, positions, session.request.form, True)
        noisy: Tensor = named(WITH_NOISE)(session, client, found, honest)
        return noisy
    labels = worker.images.labels(positions)
    enough = positions[worker.images.counts(positions)[labels] >= least]
    if not len(enough):
        raise SiteError(f"no class has the {least} images that sums of features need")
    logger.info("sums of the features of %d images", len(enough))
    return feature_sums(worker.model, worker.images, enough, session.request.form)
