"""A real out-of-memory error: does the batch that its message names fit?

ResNet-18 on images of PACS at 96x96. One client holds all 7,984 training images, and takes them as
one batch. A batch of 3,677 of them took 73 GiB on an H100, so the whole needs some 160 GiB. The
batch that the error names is then trained for one epoch in a fresh process.
"""

import re
from contextlib import nullcontext
from multiprocessing.connection import Connection
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from benchmarks.gpu.tables import table
from benchmarks.gpu.unit import Result, Settings, Unit
from server_app.config.composition import compose_experiment
from task.errors import TrainingError
from task.training.loop import LocalTrainer
from task.training.losses import LossMeter
from task.training.worker import Worker
from univarfl.engines.local.processes import CONTEXT, warm_up

PART = "memory"
EVERY_IMAGE, QUICK_LIMIT = 100_000, 10
GIBIBYTE = 2**30
NAMED = re.compile(r"batch_size=(\d+)")


def units() -> list[Unit]:
    """Return the one unit of this part."""
    return [Unit(PART, "memory", measure, needs_pacs=True)]


def measure(settings: Settings) -> Result:
    """Provoke the error, and train with the batch that it names."""
    failed = fresh(2 * QUICK_LIMIT if settings.quick else EVERY_IMAGE, settings)
    named = NAMED.search(failed.get("error", ""))
    found: Result = {"failed": failed}
    if named is None:
        return found | {"fits": None}
    second = fresh(int(named[1]), settings)
    return found | {"named": int(named[1]), "second": second, "fits": "error" not in second}


def fresh(batch: int, settings: Settings) -> Result:
    """Train one epoch with a batch size in a fresh process, and return its outcome."""
    warm_up(__name__)
    receiver, sender = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=send_epoch, args=(batch, settings, sender), daemon=True)
    process.start()
    sender.close()
    try:
        outcome: Result = receiver.recv()
    except EOFError:
        process.join()
        outcome = {"batch": batch, "error": f"its process ended with code {process.exitcode}"}
    process.join()
    return outcome


def send_epoch(batch: int, settings: Settings, sender: Connection) -> None:
    """Train one epoch, and send the outcome."""
    sender.send(epoch(batch, settings))


def epoch(batch: int, settings: Settings) -> Result:
    """Train one epoch with a batch size, and return its peak memory in GiB or its error."""
    words = [
        *settings.pacs_words(), f"device={settings.device}", "method=fedavg", "partition=iid",
        f"model={'cnn' if settings.quick else 'resnet18'}", "num_clients=1", "local_epochs=1",
        f"batch_size={batch}", f"data.image_size={32 if settings.quick else 96}",
    ]  # fmt: skip
    worker = Worker(compose_experiment(words).local())
    found: Result = {"batch": min(batch, len(worker.data.clients[0].train))}
    with limited() if settings.quick else nullcontext():
        try:
            worker.train(worker.initial_weights(), 1, 0)
        except TrainingError as error:
            found["error"] = str(error)
    if settings.device == "cuda":
        found["peak"] = torch.cuda.max_memory_reserved(worker.device) / GIBIBYTE
        found["total"] = torch.cuda.get_device_properties(worker.device).total_memory / GIBIBYTE
    return found


def limited() -> Any:
    """Pretend in a trial that memory is short for more than `QUICK_LIMIT` images a batch."""
    step = LocalTrainer.step

    def short(self: LocalTrainer, x: Tensor, y: Tensor, meter: LossMeter) -> None:
        if len(x) > QUICK_LIMIT:
            raise torch.cuda.OutOfMemoryError("pretended: out of memory")
        step(self, x, y, meter)

    return patch.object(LocalTrainer, "step", short)


def report(results: dict[str, Result]) -> str:
    """Return the batch that failed, the one named, and whether that fits."""
    rows = [
        {
            "batch": one["failed"]["batch"], "message": one["failed"].get("error", "no error"),
            "named batch": one.get("named", ""),
            "fits": {True: "yes", False: "NO", None: "no batch was named"}[one["fits"]],
        }
        for one in results.values()
    ]  # fmt: skip
    return table(rows)
