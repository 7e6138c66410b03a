"""A worker's description of itself, sent before the first round."""

import logging
import platform
import secrets

import torch

from client_app.client_state import ClientState, StateLostError
from client_app.error_redaction import reason_for_server
from client_app.node import runtime, simulated
from client_app.session import Session
from task.errors import CodeMismatchError, ConfigError, DataError, DeviceError, SiteError
from task.fingerprint import code_directories
from task.given_weights import WEIGHTS_HASH
from task.plain_text import one_line
from task.privacy.settings import UNTOLD_IMAGES, large_delta
from task.protocol.registration import RegistrationReply, RegistrationRequest
from task.registry import named
from task.site import NUM_PARTITIONS, PARTITION_ID, Site, site_name
from task.training.worker import Worker

Facts = dict[str, str | int | list[int]]

WEIGHTS = "client_app.given_weights:keep_weights"  # imported for frozen networks alone
IDENTITY = "client_app.masked.identity:check_identity"  # imported for masked rounds alone
STORAGE = "storage"  # the entry with the random name of the place where clients' states are kept
CANNOT_TRAIN = (
    CodeMismatchError, ConfigError, DataError, DeviceError, StateLostError, SiteError, OSError,
)  # fmt: skip

logger = logging.getLogger("univarfl.client")


def register(session: Session[RegistrationRequest]) -> RegistrationReply:
    """Describe this worker, and build its trainer so that it is ready for the first round.

    A worker that cannot train gives the reason in ``error`` instead of failing, so that the server
    can show what to do.
    """
    node = session.node_config
    on_site = not simulated(node)  # a site keeps its host and its directories to itself
    facts: Facts = {
        "index": int(str(node.get(PARTITION_ID, 0))),
        "nodes": int(str(node.get(NUM_PARTITIONS, 1))),
        "device": "none", "site": "", "train": 0, "validation": 0, "labels": [], "error": "",
        "statistics": False,
        "compiled": False, "state": "",
    }  # fmt: skip
    if on_site and "data-dir" in node:
        facts["site"] = one_line(site_name(node))
    try:
        if session.site is not None and WEIGHTS_HASH in session.config.model:
            named(WEIGHTS)(session, session.site)
        facts["device"] = session.worker.device.type
        facts["compiled"] = session.worker.trainer.forward.compiled
        if session.site is not None:
            if session.config.secure.masked:
                named(IDENTITY)(session)
            facts |= describe_site(session.worker, session.site)
        elif session.worker.config.models_kept:
            facts["state"] = ClientState(session.request.run).first(STORAGE, secrets.token_hex(8))
    except CANNOT_TRAIN as error:
        logger.error("%s", error)
        facts["error"] = reason_for_server(error, node)
    return RegistrationReply.to(
        session.request,
        **facts,
        code="" if on_site else one_line(str(code_directories()["task"].parent)),
        cuda=torch.cuda.is_available(),
        runtime=runtime(),
        host="" if on_site else one_line(platform.node()),
    )


def describe_site(worker: Worker, site: Site) -> Facts:
    """Return a site's facts for the server: its client's number and its image counts."""
    for note in worker.data.notes:
        logger.warning("%s", note)
    ((client, split),) = worker.data.clients.items()
    dataset = worker.data.dataset
    if worker.config.privacy.private:
        for key, delta in (("privacy.delta", worker.config.privacy.delta), ("delta", site.delta)):
            if note := large_delta(key, delta, len(split.train)):
                logger.warning("%s", note)
        return {
            "index": client,
            "nodes": worker.config.num_clients,
            "site": site.name,
            "train": UNTOLD_IMAGES,
            "validation": 0,
            "statistics": site.tell_statistics,
        }
    counts = dataset.images_of_class(dataset.train)
    return {
        "index": client,
        "nodes": worker.config.num_clients,
        "site": site.name,
        "train": len(split.train),
        "validation": len(split.validation),
        "labels": counts.tolist() if site.tell_labels else [],
        "statistics": site.tell_statistics,
    }
