"""The work of the bare loop by BlazeFL (3.0.0), one client after another or in a pool of processes.

BlazeFL averages the whole state, as we do. Its trainers know SGD with a learning rate alone; here
the optimizer has our momentum and weight decay. BlazeFL starts a new pool in each round, and a
worker makes a new model for each client.
"""

import os
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import torch
from blazefl.contrib import (  # type: ignore[import-not-found, import-untyped, unused-ignore]
    FedAvgBaseClientTrainer,
    FedAvgBaseServerHandler,
    FedAvgProcessPoolClientTrainer,
    fedavg,
)
from torch.nn import Module

from benchmarks.bare_loop import Work
from benchmarks.peers.shared import Layout, Logits, dataset, loader


class Models:
    """Selects the one network."""

    def select_model(self, name: str) -> Module:
        return Logits()


class Clients:
    """All clients' images in memory."""

    def __init__(self, work: Work, layout: Layout) -> None:
        self.datasets = [dataset(work, positions, layout) for positions in work.clients]

    def get_dataloader(
        self, type_: str, cid: int, batch_size: int, generator: torch.Generator
    ) -> Any:
        return loader(self.datasets[cid], batch_size, generator)

    def set_dataset(self, type_: str, cid: int, dataset: Any) -> None:
        """Keep nothing: BlazeFL gives back the worker's copy of a client's images."""


class OneThread(FedAvgProcessPoolClientTrainer):  # type: ignore[misc, unused-ignore]
    """BlazeFL's pool whose workers have one thread each; by default each uses all cores."""

    @staticmethod
    def worker(*arguments: Any, **more: Any) -> Any:
        torch.set_num_threads(1)
        return FedAvgProcessPoolClientTrainer.worker(*arguments, **more)


def run(work: Work, layout: Layout, processes: int = 0) -> list[float]:
    """Run federated averaging by BlazeFL, and return the seconds of each round.

    Args:
        work: what is trained.
        layout: how a client's images are kept and augmented.
        processes: how many the pool has; 0: the serial trainer, with two threads.
    """
    torch.set_num_threads(2)
    os.environ["TQDM_DISABLE"] = "1"
    fedavg.torch.optim.SGD = partial(torch.optim.SGD, momentum=0.9, weight_decay=1e-5)
    common = {
        "model_selector": Models(), "model_name": "cnn", "dataset": Clients(work, layout),
        "device": "cpu", "num_clients": len(work.clients), "batch_size": work.batch_size,
        "seed": 0,
    }  # fmt: skip
    server = FedAvgBaseServerHandler(global_round=work.rounds, sample_ratio=1.0, **common)
    local = {**common, "epochs": work.epochs, "lr": 0.01}
    seconds = []
    with tempfile.TemporaryDirectory() as place:
        if processes:
            trainer = OneThread(state_dir=Path(place), num_parallels=processes, **local)
        else:
            trainer = FedAvgBaseClientTrainer(**local)
        while not server.is_stopped():
            started = time.perf_counter()
            trainer.local_process(server.downlink_package(), server.sample_clients())
            for package in trainer.uplink_package():
                server.load(package)
            seconds.append(time.perf_counter() - started)
    return seconds
