"""The moments of one layer's inputs, which the server asks for after the last round.

A site sends them only in an experiment with ``model.statistics=exact``. A simulated worker always
does, because the record of a simulation has the accuracy with these statistics, too.
"""

from functools import cache
from typing import Any

from client_app.after.features import described
from client_app.after.sent_tensors import tensors_of_clients
from client_app.client_state import DESCRIBED, ClientState
from client_app.node import simulated
from client_app.session import Session
from task.errors import ProtocolError, SiteError
from task.models.layers.norm import batch_norm_layers
from task.protocol.after.moments import MEAN, VARIANCE, MomentsReply, MomentsRequest
from task.protocol.tensors import PackedTensors
from task.tensors import Tensors
from task.training.after.moments import input_moments, measured_positions

MOMENTS_OF = f"{DESCRIBED}moments"  # the entry with the hash of the parameters that were described


def moments_of_clients(session: Session[MomentsRequest]) -> MomentsReply:
    """Return the moments of a layer's inputs on each client's training images.

    A client that fails is reported in its own row.

    Raises:
        ProtocolError: the request does not fit this worker.
    """
    request = session.request
    session.refuse_if_masked("the statistics of batch norm")
    session.check_clients(request.clients)

    @cache  # the clients of a request have one model
    def load() -> None:
        weights = session.tensors(request.weights)
        check_same_model(session, weights)
        session.worker.load(weights)

    def moments_of(client: int) -> Tensors:
        check_allowed(session)
        session.check_trained_here(client)
        load()
        worker = session.worker
        positions = measured_positions(worker, client, request.images)
        mean, variance = input_moments(worker.model, request.layer, worker.images, positions)
        return {MEAN: mean, VARIANCE: variance}

    rows, sent = tensors_of_clients(session, moments_of)
    return MomentsReply.to(request, rows=rows, sent=sent)


def check_allowed(session: Session[MomentsRequest]) -> None:
    """Refuse moments that one client must not send.

    Raises:
        ProtocolError: as for `check_measured`.
        SiteError: the site does not tell its statistics; otherwise as for `check_measured`.
    """
    check_measured(session)
    site = session.site
    if site is not None:
        site.check_telling("images")


def check_measured(session: Session[Any]) -> None:
    """Refuse to measure what is no layer of batch norm, or what the experiment does not measure.

    Raises:
        ProtocolError: it is another round, layer or number of images; the experiment does not have
            exact statistics; the model has personal parts; clients add noise.
        SiteError: the site limits its privacy loss.
    """
    session.require_last_round("batch norm is measured")
    request, worker = session.request, session.worker
    network = worker.config.network()
    if not simulated(session.node_config):
        if network.statistics != "exact":
            raise ProtocolError("the experiment does not have model.statistics=exact")
        if request.images != network.statistics_images:
            raise ProtocolError("it names another number of images than model.statistics_images")
    if worker.personal:
        raise ProtocolError("no statistics are sent of a model with personal parts")
    if worker.config.privacy.private:
        raise ProtocolError("statistics of its images are not sent with noise at the clients")
    layer = batch_norm_layers(worker.model).get(request.layer)
    if layer is None or layer.num_features != request.channels:
        raise ProtocolError("it names no layer of batch norm with this number of channels")
    site = session.site
    if site is not None:
        site.check_without_noise("statistics of batch norm have no noise")


def check_same_model(session: Session[Any], weights: Tensors) -> None:
    """Refuse to describe a second model in the same run, or a layer twice with other statistics.

    From layer to layer the statistics of the layers before it change. Many answers about one layer
    could show single images, because its inputs depend on these statistics.

    Raises:
        SiteError: a site has described another model, or the layer with other statistics, or
            either in another experiment.
    """
    site, layer = session.site, session.request.layer
    if site is None:
        return
    state = ClientState(session.request.run, site=site)
    parameters = {name: weights[name] for name, _ in session.worker.model.named_parameters()}
    for name, tensors in {MOMENTS_OF: parameters, f"{MOMENTS_OF}-{layer}": weights}.items():
        model = described(session, PackedTensors.of(tensors).data)
        if state.first(name, model) != model:
            raise SiteError(f"site {site.name} has sent statistics of another model in this run")
