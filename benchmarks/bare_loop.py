"""Federated averaging as a bare PyTorch loop, the lower bound for any system's time.

Only the network is ours. Each client takes some epochs of SGD over uint8 images in memory, which
are cropped, flipped and normalised batch by batch. The layout is channels last; model and optimizer
are reused. The loop evaluates nothing, samples no clients, checks nothing and records nothing.
"""

import time
from collections.abc import Mapping, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from task.models.cnn import Cnn
from task.training.device import keep_freed_memory

CLASSES, FEATURES, PADDING = 10, 256, 4


class Work(NamedTuple):
    """Images [N, H, W, 3] uint8, labels [N], each client's positions, and the settings."""

    images: Tensor
    labels: Tensor
    clients: Sequence[Tensor]
    epochs: int
    batch_size: int
    rounds: int

    def arrays(self) -> dict[str, Any]:
        """Return the work as arrays that NumPy can save."""
        clients = {f"client_{i}": part.numpy() for i, part in enumerate(self.clients)}
        numbers = {"epochs": self.epochs, "batch_size": self.batch_size, "rounds": self.rounds}
        return {**clients, **numbers, "images": self.images.numpy(), "labels": self.labels.numpy()}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, Any]) -> "Work":
        """Return the work that `arrays` was called on."""
        clients = sum(name.startswith("client_") for name in arrays)
        return cls(
            torch.from_numpy(arrays["images"]),
            torch.from_numpy(arrays["labels"]),
            [torch.from_numpy(arrays[f"client_{i}"]) for i in range(clients)],
            *(int(arrays[name]) for name in ("epochs", "batch_size", "rounds")),
        )


class Bare:
    """The loop of one process over its clients."""

    def __init__(self, work: Work, clients: Sequence[int], threads: int, tuned: bool) -> None:
        torch.set_num_threads(threads)
        if tuned:
            keep_freed_memory()
        self.work, self.clients = work, clients
        self.model = Cnn(3, CLASSES, FEATURES).to(memory_format=torch.channels_last)
        self.optimizer = torch.optim.SGD(
            self.model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-5
        )

    def round(self, weights: dict[str, Tensor]) -> dict[str, Tensor]:
        """Train every client from the weights, and return the sum of their states."""
        total: dict[str, Tensor] = {}
        for client in self.clients:
            self.train(weights, self.work.clients[client])
            for name, value in self.model.state_dict().items():
                total[name] = total[name] + value if name in total else value.clone()
        return total

    def train(self, weights: dict[str, Tensor], positions: Tensor) -> None:
        """Train one client for its epochs."""
        self.model.load_state_dict(weights)
        self.optimizer.state.clear()
        self.model.train()
        for _ in range(self.work.epochs):
            order = positions[torch.randperm(len(positions))]
            for batch in order.split(self.work.batch_size):
                loss = F.cross_entropy(
                    self.model(self.pixels(batch)).logits, self.work.labels[batch]
                )
                self.optimizer.zero_grad(set_to_none=True)
                loss.backward()
                self.optimizer.step()

    def pixels(self, batch: Tensor) -> Tensor:
        """Return a batch [n, 3, H, W], randomly cropped from padded images, flipped, normalised."""
        cut = cropped(F.pad(self.work.images[batch], (0, 0, *[PADDING] * 4)))
        return cut.permute(0, 3, 1, 2).float().mul_(1 / 63.75).sub_(2)


def cropped(padded: Tensor) -> Tensor:
    """Crop each padded image [n, H, W, C] at a random place, and flip half of them."""
    count, height, width, channels = padded.shape
    size = height - 2 * PADDING
    top, left = torch.randint(2 * PADDING + 1, (2, count, 1))
    across = torch.arange(size)
    flipped = torch.where(torch.rand(count, 1) < 0.5, size - 1 - across, across)
    rows = torch.arange(count).unsqueeze(1) * height + top + across
    places = rows.unsqueeze(2) * width + (left + flipped).unsqueeze(1)
    return padded.reshape(-1, channels)[places.view(-1)].view(count, size, size, channels)


def serve(
    connection: Connection, work: Work, clients: Sequence[int], threads: int, tuned: bool
) -> None:
    """Train a round for each message of weights, until None arrives."""
    bare = Bare(work, clients, threads, tuned)
    while (weights := connection.recv()) is not None:
        connection.send(bare.round(weights))


def run(work: Work, processes: int, threads: int, tuned: bool = False) -> list[float]:
    """Run federated averaging, and return the seconds of each round.

    Args:
        work: what is trained.
        processes: how many processes train.
        threads: how many threads each process computes with.
        tuned: whether they keep freed memory, as our workers do.
    """
    context = get_context("spawn")
    members = []
    processes = min(processes, len(work.clients))
    for index in range(processes):
        here, there = context.Pipe()
        share = range(index, len(work.clients), processes)
        member = context.Process(
            target=serve, args=(there, work, share, threads, tuned), daemon=True
        )
        member.start()
        members.append((here, member))
    weights = Cnn(3, CLASSES, FEATURES).state_dict()
    seconds = []
    for _ in range(work.rounds):
        started = time.perf_counter()
        for connection, _ in members:
            connection.send(weights)
        sums = [connection.recv() for connection, _ in members]
        weights = {
            name: (sum(part[name] for part in sums) / len(work.clients)).to(value.dtype)
            for name, value in weights.items()
        }
        seconds.append(time.perf_counter() - started)
    for connection, member in members:
        connection.send(None)
        member.join()
    return seconds
