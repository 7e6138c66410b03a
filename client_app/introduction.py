"""What a worker tells the server before the first round."""

import platform
import sys

import torch
from flwr.app import ConfigRecord, Context, RecordDict

from client_app.request import CodeMismatchError, Request
from task import wire
from task.errors import ConfigError, DeviceError
from task.fingerprint import code_directories, fingerprint


def introduce(request: Request, context: Context) -> RecordDict:
    """Describe this worker, and build what it trains with, so that the first round finds it ready.

    A worker that cannot train says why in ``error`` instead of failing, because the server can then
    tell a person what to do.
    """
    error, device = "", "none"
    try:
        device = request.worker.device.type
        _ = request.worker.trainer  # now, so that the first round need not wait for it
    except (CodeMismatchError, ConfigError, DeviceError) as reason:
        error = str(reason)
    introduction = ConfigRecord(
        {
            "seat": context.node_config.get("partition-id", 0),
            "seats": context.node_config.get("num-partitions", 1),
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
