"""What a worker refuses to tell of its images' features after the last round."""

import hashlib
from typing import Any

from client_app.client_state import DESCRIBED, ClientState
from client_app.session import Session
from task.errors import ProtocolError, SiteError
from task.site import Site

STATISTICS_OF = f"{DESCRIBED}statistics"  # the entry with the hash of the model that was described
LEAST_OF_CLASS = 20  # images; a sum or mean of few would be close to one of them


def check_features(session: Session[Any], size: int) -> None:
    """Refuse a description of features that the site's owner or the experiment protects.

    Args:
        session: the request, with ``classes``, ``features`` and ``weights``.
        size: of the description of one client, in bytes.

    Raises:
        ProtocolError: clients add noise, or the model has no such features.
        SiteError: the site does not tell its statistics, limits its privacy loss, or has
            described another model, or in another experiment, in this run.
    """
    request, worker = session.request, session.worker
    if worker.personal or not worker.config.network().trained_features:
        raise ProtocolError("no statistics are sent of a model with personal parts or no features")
    shape = worker.model.state_dict()["classifier.weight"].shape
    if shape != (request.classes, request.features):
        raise ProtocolError("it names other numbers of classes and features than the model has")
    if worker.config.privacy.private and not worker.method.closed_form:
        raise ProtocolError("statistics of its images are not sent with noise at the clients")
    site = session.site
    if site is not None:
        check_site(session, site, size)


def described(session: Session[Any], model: bytes) -> str:
    """Return a hash of a model and of the experiment, which decides the images and frozen layers.

    Args:
        session: the request.
        model: what the request has of the model, in bytes.
    """
    return hashlib.sha256(session.request.experiment.encode() + b"\0" + model).hexdigest()


def check_site(session: Session[Any], site: Site, size: int) -> None:
    """Refuse what the site's owner does not allow; see `check_features`.

    Raises:
        SiteError: the owner does not.
    """
    site.check_telling("images' features")
    megabytes = size / 1e6
    if megabytes > site.max_model_megabytes:
        raise SiteError(
            f"site {site.name} sends at most {site.max_model_megabytes} MB (its "
            f"max-model-megabytes), and the statistics have up to {megabytes:,.0f} MB"
        )
    request = session.request
    model = described(session, request.weights.data)
    if ClientState(request.run, site=site).first(STATISTICS_OF, model) != model:
        raise SiteError(f"site {site.name} has sent statistics of another model in this run")
    if not session.worker.config.privacy.private:
        site.check_without_noise("statistics of features have no noise")
