"""What a worker tells the server before the first round."""

import logging
import platform
import sys

import torch
from flwr.app import ConfigRecord, Context, RecordDict
from flwr.common.constant import NUM_PARTITIONS_KEY, PARTITION_ID_KEY

from client_app.request import CodeMismatchError, Request
from task import wire
from task.errors import ConfigError, DataError, DeviceError, SiteError
from task.fingerprint import code_directories, fingerprint

logger = logging.getLogger("univarfl.client")


def introduce(request: Request, context: Context) -> RecordDict:
    """Describe this worker, and build what it trains with, so that the first round finds it ready.

    A worker that cannot train says why in ``error`` instead of failing, because the server can then
    tell a person what to do.
    """
    node = context.node_config
    simulated = PARTITION_ID_KEY in node
    seat, seats = node.get(PARTITION_ID_KEY, 0), node.get(NUM_PARTITIONS_KEY, 1)
    error, device, site, train, validation = "", "none", "", 0, 0
    try:
        worker = request.worker
        _ = worker.trainer  # now, so that the first round need not wait for it
        device = worker.device.type
        if not simulated:
            ((seat, split),) = worker.data.clients.items()
            sites = worker.config.divider().sites
            site, seats = sites[seat], len(sites)
            train, validation = len(split.train), len(split.validation)
            for note in worker.data.notes:
                logger.warning("%s", note)
    except (CodeMismatchError, DeviceError, SiteError) as reason:
        error = str(reason)
    except (ConfigError, DataError) as reason:
        logger.error("%s", reason)
        # What its files are called stays at the site.
        error = str(reason) if simulated else "its data cannot be used; its own log says why"
    introduction = ConfigRecord(
        {
            "seat": seat,
            "seats": seats,
            "site": site,
            "train": train,
            "validation": validation,
            "fingerprint": fingerprint(),
            "code": str(code_directories()["task"].parent),
            "device": device,
            "cuda": torch.cuda.is_available(),
            "runtime": runtime(),
            "host": platform.node(),
            "error": error,
        }
    )
    return RecordDict({wire.INTRODUCTION: introduction})


def runtime() -> str:
    """What runs this process: ``ray`` inside a Ray actor, else ``process``."""
    ray = sys.modules.get("ray")
    in_actor = ray is not None and ray.is_initialized() and ray.get_runtime_context().get_actor_id()
    return "ray" if in_actor else "process"
