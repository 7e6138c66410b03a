"""The same local training as a bare PyTorch loop: what any system can at best come near to.

Nothing of ours but the network: federated averaging of clients that each take some epochs of SGD
over uint8 images in memory, cropped, flipped and normalised batch by batch, channels last, model
and optimizer reused. It scores nothing, samples nobody, checks nothing and records nothing.
"""

import time
from collections.abc import Mapping, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from task.device import keep_freed_memory
from task.models.cnn import Cnn

CLASSES, FEATURES, PADDING = 10, 256, 4


class Work(NamedTuple):
    """What is trained: images [N, H, W, 3] uint8, labels [N], each client's positions, and how."""

    images: Tensor
    labels: Tensor
    clients: Sequence[Tensor]
    epochs: int
    batch_size: int
    rounds: int

    def arrays(self) -> dict[str, Any]:
        """The work as NumPy can save it."""
        clients = {f"client_{i}": part.numpy() for i, part in enumerate(self.clients)}
        numbers = {"epochs": self.epochs, "batch_size": self.batch_size, "rounds": self.rounds}
        return {**clients, **numbers, "images": self.images.numpy(), "labels": self.labels.numpy()}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, Any]) -> "Work":
        """The work that `arrays` gave."""
        clients = sum(name.startswith("client_") for name in arrays)
        return cls(
            torch.from_numpy(arrays["images"]),
            torch.from_numpy(arrays["labels"]),
            [torch.from_numpy(arrays[f"client_{i}"]) for i in range(clients)],
            *(int(arrays[name]) for name in ("epochs", "batch_size", "rounds")),
        )


class Bare:
    """One process's loop over its share of the clients."""

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
        """Train every client from the weights; the sum of their states."""
        total: dict[str, Tensor] = {}
        for client in self.clients:
            self.train(weights, self.work.clients[client])
            for name, value in self.model.state_dict().items():
                total[name] = total[name] + value if name in total else value.clone()
        return total

    def train(self, weights: dict[str, Tensor], positions: Tensor) -> None:
        """One client's epochs."""
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
        """A batch, cropped at random out of its padded images, flipped, normalised."""
        cut = cropped(F.pad(self.work.images[batch], (0, 0, *[PADDING] * 4)))
        return cut.permute(0, 3, 1, 2).float().mul_(1 / 63.75).sub_(2)


def cropped(padded: Tensor) -> Tensor:
    """Padded images [n, H, W, C], each cut to size at a place of its own, half of them flipped."""
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
    """Answer rounds until told to end, in a process of its own."""
    bare = Bare(work, clients, threads, tuned)
    while (weights := connection.recv()) is not None:
        connection.send(bare.round(weights))


def run(work: Work, processes: int, threads: int, tuned: bool = False) -> list[float]:
    """Federated averaging by so many processes of so many threads; the seconds of each round.

    `tuned` has them keep freed memory as ours do, which no loop does by itself.
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
