"""The file of ``model.weights`` at a site, which gets it with its registration."""

import hashlib

from client_app.session import Session
from task.data.image_store.store import store_root
from task.errors import ProtocolError, SiteError
from task.given_weights import WEIGHTS_HASH, cached
from task.machine.files import MEGABYTE, make_private, require_space, write_whole
from task.protocol.registration import RegistrationRequest
from task.site import Site

MOST_FILES = 8  # in the cache; the oldest goes


def keep_weights(session: Session[RegistrationRequest], site: Site) -> None:
    """Keep the file of weights that came with a registration, if it is not in the cache.

    Raises:
        ProtocolError: it is another file than the experiment names.
        SiteError: it is larger than the site's models may be.
        SpaceError: the disk has less free than its owner keeps free.
        OSError: it cannot be written.
    """
    content, sha256 = session.request.weights.data, session.config.model[WEIGHTS_HASH]
    place = cached(sha256)
    if place.exists() or not content:
        return
    if len(content) > site.max_model_megabytes * MEGABYTE:
        raise SiteError(
            f"site {site.name} trains models of at most {site.max_model_megabytes} MB (its "
            f"max-model-megabytes), and the file of weights has {len(content) / MEGABYTE:,.0f} MB"
        )
    if hashlib.sha256(content).hexdigest() != sha256:
        raise ProtocolError("its file of weights is not the one that the experiment names")
    require_space(store_root(), len(content), site.keep_free_megabytes)
    make_private(place.parent)
    files = sorted(place.parent.glob("*.safetensors"), key=lambda path: path.stat().st_mtime)
    for old in files[: max(0, len(files) + 1 - MOST_FILES)]:
        old.unlink(missing_ok=True)
    write_whole(place, content)
