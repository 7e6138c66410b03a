"""The work of the bare loop by FedLab (1.3.0), client after client in one process.

FedLab averages the parameters, not the batch-norm statistics: these continue from client to client
in its one model, as does the momentum of its one optimizer. It takes any loader; here
it is PyTorch's.
"""

import time
from itertools import pairwise
from typing import Any

import torch
from fedlab.contrib.algorithm.fedavg import FedAvgSerialClientTrainer, FedAvgServerHandler  # type: ignore[import-not-found, import-untyped, unused-ignore]
from fedlab.contrib.dataset.basic_dataset import FedDataset  # type: ignore[import-not-found, import-untyped, unused-ignore]
from fedlab.core.standalone import StandalonePipeline  # type: ignore[import-not-found, import-untyped, unused-ignore]

from benchmarks.bare_loop import Work
from benchmarks.peers.shared import Layout, Logits, dataset, loader


class Clients(FedDataset):  # type: ignore[misc, unused-ignore]
    """All clients' images in memory."""

    def __init__(self, work: Work, layout: Layout) -> None:
        super().__init__()
        self.num = len(work.clients)
        self.datasets = [dataset(work, positions, layout) for positions in work.clients]

    def get_dataset(self, id: int, type: str = "train") -> Any:  # noqa: A002
        return self.datasets[id]

    def get_dataloader(self, id: int, batch_size: int, type: str = "train") -> Any:  # noqa: A002
        return loader(self.datasets[id], batch_size)


class Timed(StandalonePipeline):  # type: ignore[misc, unused-ignore]
    """FedLab's simulation with the time of each round's end, where it calls `evaluate`."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.times = [time.perf_counter()]

    def evaluate(self) -> None:
        self.times.append(time.perf_counter())


def run(work: Work, layout: Layout) -> list[float]:
    """Run federated averaging by FedLab, and return the seconds of each round."""
    torch.set_num_threads(2)
    model = Logits()
    trainer = FedAvgSerialClientTrainer(model, len(work.clients))
    trainer.setup_dataset(Clients(work, layout))
    trainer.setup_optim(work.epochs, work.batch_size, 0.01)
    trainer.optimizer = torch.optim.SGD(
        trainer.model.parameters(), 0.01, momentum=0.9, weight_decay=1e-5
    )
    pipeline = Timed(FedAvgServerHandler(model, work.rounds, sample_ratio=1.0), trainer)
    pipeline.main()
    return [end - start for start, end in pairwise(pipeline.times)]
