"""What a worker tells the server before the first round."""

import logging
import platform
import secrets

import numpy as np
import torch
from flwr.app import ConfigRecord, Context, RecordDict
from flwr.common.constant import NUM_PARTITIONS_KEY, PARTITION_ID_KEY

from client_app.discretion import told
from client_app.memory import ClientMemory, MemoryLostError
from client_app.node import runtime, simulated
from client_app.request import CodeMismatchError, Request
from task import wire
from task.errors import ConfigError, DataError, DeviceError, SiteError
from task.fingerprint import code_directories, fingerprint
from task.site import Site, name_of
from task.worker import Worker

Facts = dict[str, str | int | list[int]]

FIRST = "first"  # under which a run's clients' memory keeps who came first
CANNOT_TRAIN = (
    CodeMismatchError, ConfigError, DataError, DeviceError, MemoryLostError, SiteError, OSError,
)  # fmt: skip

logger = logging.getLogger("univarfl.client")


def introduce(request: Request, context: Context) -> RecordDict:
    """Describe this worker, and build what it trains with, so that the first round finds it ready.

    A worker that cannot train says why in ``error`` instead of failing, because the server can then
    tell a person what to do.
    """
    node = context.node_config
    seat = {"seat": node.get(PARTITION_ID_KEY, 0), "seats": node.get(NUM_PARTITIONS_KEY, 1)}
    able: Facts = {
        "device": "none", "site": "", "train": 0, "validation": 0, "labels": [], "error": "",
        "compiled": False, "memory": "",
    }  # fmt: skip
    own = not simulated(node)  # a site's host and directories are nobody else's business
    if own and "data-dir" in node:
        able["site"] = name_of(node)
    try:
        able["device"] = request.worker.device.type
        able["compiled"] = request.worker.trainer.forward.compiled
        if request.site is not None:
            able |= own_client(request.worker, request.site)
        elif any(member.memory for member in request.worker.method.members()):
            able["memory"] = ClientMemory(request.run).first(FIRST, secrets.token_hex(8))
    except CANNOT_TRAIN as reason:
        logger.error("%s", reason)
        able["error"] = told(reason, str(reason), node)
    introduction = ConfigRecord(
        {
            **seat,
            **able,
            "fingerprint": fingerprint(),
            "code": "" if own else str(code_directories()["task"].parent),
            "cuda": torch.cuda.is_available(),
            "runtime": runtime(),
            "host": "" if own else platform.node(),
        }
    )
    return RecordDict({wire.INTRODUCTION: introduction})


def own_client(worker: Worker, site: Site) -> Facts:
    """What the server must know of a site: which client it is, and how many images it has."""
    for note in worker.data.notes:
        logger.warning("%s", note)
    ((client, split),) = worker.data.clients.items()
    dataset = worker.data.dataset
    counts = np.bincount(dataset.labels[dataset.train], minlength=len(dataset.classes))
    return {
        "seat": client,
        "seats": worker.config.num_clients,
        "site": site.name,
        "train": len(split.train),
        "validation": len(split.validation),
        "labels": counts.tolist() if site.tells_labels else [],
    }
