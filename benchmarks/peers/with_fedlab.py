"""The work of the bare loop by FedLab (1.3.0), client after client in one process.

FedLab averages the parameters, not the batch-norm statistics: these continue from client to client
in its one model, as does the momentum of its one optimizer. It takes any loader. Here it is
PyTorch's, over tensors in memory; it indexes and augments a whole batch at once.
"""

import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from fedlab.contrib.algorithm.fedavg import FedAvgSerialClientTrainer, FedAvgServerHandler  # type: ignore[import-not-found, import-untyped, unused-ignore]
from fedlab.contrib.dataset.basic_dataset import FedDataset  # type: ignore[import-not-found, import-untyped, unused-ignore]
from fedlab.core.standalone import StandalonePipeline  # type: ignore[import-not-found, import-untyped, unused-ignore]
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

from benchmarks.bare_loop import Work
from benchmarks.peers.shared import Logits, crop_and_flip, tensors


class Clients(FedDataset):  # type: ignore[misc, unused-ignore]
    """All clients' images in memory."""

    def __init__(self, work: Work) -> None:
        super().__init__()
        self.num = len(work.clients)
        self.datasets = [TensorDataset(*tensors(work, positions)) for positions in work.clients]

    def get_dataset(self, id: int, type: str = "train") -> TensorDataset:  # noqa: A002
        return self.datasets[id]

    def get_dataloader(self, id: int, batch_size: int, type: str = "train") -> Any:  # noqa: A002
        dataset = self.get_dataset(id)
        batches = BatchSampler(RandomSampler(dataset), batch_size, drop_last=False)
        return DataLoader(dataset, batch_size=None, sampler=batches, collate_fn=augment)


def augment(batch: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Return a batch with cropped and flipped images."""
    images, labels = batch
    return crop_and_flip(images), labels


class Timed(StandalonePipeline):  # type: ignore[misc, unused-ignore]
    """FedLab's simulation with the time of each round's end, where it calls `evaluate`."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.times = [time.perf_counter()]

    def evaluate(self) -> None:
        self.times.append(time.perf_counter())


def run(work: Work) -> list[float]:
    """Run federated averaging by FedLab, and return the seconds of each round."""
    torch.set_num_threads(2)
    model = Logits()
    trainer = FedAvgSerialClientTrainer(model, len(work.clients))
    trainer.setup_dataset(Clients(work))
    trainer.setup_optim(work.epochs, work.batch_size, 0.01)
    trainer.optimizer = torch.optim.SGD(
        trainer.model.parameters(), 0.01, momentum=0.9, weight_decay=1e-5
    )
    pipeline = Timed(FedAvgServerHandler(model, work.rounds, sample_ratio=1.0), trainer)
    pipeline.main()
    return [end - start for start, end in pairwise(pipeline.times)]
