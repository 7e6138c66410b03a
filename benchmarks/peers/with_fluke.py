"""The work of the bare loop by fluke (0.8.1), client after client in one process.

fluke copies the whole network to each client and back, and reads the loss's value at every step. It
averages the batch-norm statistics, as we do. With ``persistency=False`` the momentum is reset each
round, as ours is; fluke's default keeps it.
"""

import io
import time
from contextlib import redirect_stdout
from typing import Any

import torch
from fluke import FlukeENV  # type: ignore[import-not-found, import-untyped, unused-ignore]
from fluke.algorithms.fedavg import FedAVG  # type: ignore[import-not-found, import-untyped, unused-ignore]
from fluke.data import DataSplitter, DummyDataContainer, FastDataLoader  # type: ignore[import-not-found, import-untyped, unused-ignore]
from fluke.utils import FederationObserver  # type: ignore[import-not-found, import-untyped, unused-ignore]

from benchmarks.bare_loop import CLASSES, Work
from benchmarks.peers.shared import Layout, Logits, crop_and_flip, tensors


class Clock(FederationObserver):  # type: ignore[misc, unused-ignore]
    """An observer that measures the seconds of each round."""

    def __init__(self) -> None:
        self.started, self.seconds = 0.0, list[float]()

    def start_round(self, **_: Any) -> None:
        self.started = time.perf_counter()

    def end_round(self, **_: Any) -> None:
        self.seconds.append(time.perf_counter() - self.started)


def run(work: Work, layout: Layout) -> list[float]:
    """Run federated averaging by fluke, and return the seconds of each round."""
    torch.set_num_threads(2)
    loaders = [
        FastDataLoader(
            *tensors(work, positions, layout), num_labels=CLASSES, batch_size=work.batch_size,
            shuffle=True, transforms=crop_and_flip,
        )
        for positions in work.clients
    ]  # fmt: skip
    data = DummyDataContainer(loaders, [None] * len(loaders), None, CLASSES)
    client = {
        "batch_size": work.batch_size, "local_epochs": work.epochs, "loss": "CrossEntropyLoss",
        "optimizer": {"name": "SGD", "lr": 0.01, "momentum": 0.9, "weight_decay": 1e-5},
        "scheduler": {"name": "StepLR", "step_size": 1, "gamma": 1}, "persistency": False,
    }  # fmt: skip
    FlukeENV().set_eval_cfg(pre_fit=False, post_fit=False, locals=False, server=False)
    federation = FedAVG(
        len(loaders), DataSplitter(data), {"client": client, "server": {}, "model": Logits()}
    )
    clock = Clock()
    federation.set_callbacks(clock)
    with redirect_stdout(io.StringIO()):
        federation.run(work.rounds, eligible_perc=1)
    return clock.seconds
