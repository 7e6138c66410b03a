"""Measure the time of each method's training step over that of plain cross-entropy.

    uv run python -m benchmarks.steps [STEPS] [MODEL SIZE ...]    (15 minutes at 40 steps)

Each turn, every method takes one step on the same batch of 64 random images, in one process on one
thread. The order of the methods is drawn again for each turn, so that other load on the machine
affects all of them equally. The networks are `cnn` and `resnet18` at 32x32 and 96x96. A ratio is
one of medians; the quartiles are those of 200 bootstrap ratios over turns. Methods that keep state
have that of an earlier round, as from a client's second round on.
"""

import sys
import time
from collections.abc import Sequence

import numpy as np
import torch

from server_app.config.composition import compose_experiment
from task.methods.base import LocalRound
from task.seeding import torch_generator
from task.training.device import prepare_process
from task.training.loop import LocalTrainer
from task.training.losses import LossMeter
from tests.conftest import training_methods

CLASSES, ROWS, WARM_UP = 10, 64, 3
NETWORKS = (("cnn", 32), ("resnet18", 32), ("cnn", 96), ("resnet18", 96))


def trainer(
    words: Sequence[str],
    device: torch.device,
    layout: torch.memory_format = torch.channels_last,
) -> LocalTrainer:
    """Return a client's trainer, started on a round that is not the client's first.

    Args:
        words: the overrides of the experiment.
        device: where the network is trained.
        layout: the order of kernels in memory; training uses ``channels_last``.
    """
    local = compose_experiment(words).local()
    method = local.local_method()
    network = method.build(local.network().build(3, CLASSES), torch_generator(0, "build"))
    network = network.to(device).to(memory_format=layout).train()
    made = LocalTrainer(network, method, local)
    counts = torch.ones(CLASSES, dtype=torch.int64, device=device)
    method.start(network, LocalRound(1, 0, torch_generator(0, "draws"), counts))
    x = torch.randn(2, 3, 64, 64, device=device)
    made.step(x, torch.randint(CLASSES, (2,), device=device), LossMeter())
    state = dict(method.finish(network).state)
    method.start(network, LocalRound(2, 0, torch_generator(0, "draws"), counts, state))
    return made


def measure(model: str, size: int, steps: int) -> None:
    """Print the rows of one network at one size."""
    words = [f"model={model}", f"batch_size={ROWS}"]
    cpu = torch.device("cpu")
    trainers = {method: trainer([f"method={method}", *words], cpu) for method in runnable(model)}
    meter = LossMeter()
    seconds: dict[str, list[float]] = {method: [] for method in trainers}
    generator = np.random.default_rng(0)
    for turn in range(WARM_UP + steps):
        x = torch.randn(ROWS, 3, size, size).to(memory_format=torch.channels_last)
        y = torch.randint(CLASSES, (ROWS,))
        for method in generator.permutation(list(trainers)):
            started = time.perf_counter()
            trainers[method].step(x, y, meter)
            if turn >= WARM_UP:
                seconds[method].append(time.perf_counter() - started)
    draws = generator.integers(steps, size=(200, steps))
    plain = np.array(seconds["fedavg"])
    for method, own in seconds.items():
        mine = np.array(own)
        ratio = np.median(mine) / np.median(plain)
        ratios = np.median(mine[draws], axis=1) / np.median(plain[draws], axis=1)
        low, high = np.quantile(ratios, (0.25, 0.75))
        print(
            f"| {model} {size}x{size} | {method} | {np.median(mine) * 1e3:.1f} "
            f"| {ratio:.3f} | {low:.3f} to {high:.3f} |",
            flush=True,
        )


def runnable(model: str) -> list[str]:
    """Return the methods that can train this network, FedAvg first."""
    every = sorted(training_methods(), key=lambda method: (method != "fedavg", method))
    if model != "cnn":
        return every
    return [name for name in every if name not in ("fedalign", "gradaug", "stochdepth")]


def main(words: Sequence[str]) -> None:
    """Print the table."""
    prepare_process()
    steps = int(words[0]) if words else 60
    wanted = list(zip(words[1::2], words[2::2], strict=True)) if words[1:] else NETWORKS
    print(
        "| network | method | ms a step | to cross-entropy's | quartiles |\n|---|---|---|---|---|"
    )
    for model, size in wanted:
        measure(model, int(size), steps)


if __name__ == "__main__":
    main(sys.argv[1:])
