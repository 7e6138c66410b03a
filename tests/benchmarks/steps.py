"""Each method's training step against cross-entropy's: ratios measured side by side.

    uv run python -m tests.benchmarks.steps [STEPS] [MODEL SIZE ...]    (15 minutes at 40 steps)

A batch of 64 made images, new each turn, goes through `cnn` and `resnet18` at 32x32 and 96x96, on
one thread. Every method takes one step a turn, in the same process and in an order drawn anew each
turn, so that what else the machine does falls on all alike. A ratio is that of two medians; beside
it stand the quartiles of 200 such ratios over turns drawn with replacement. MOON has a client's own
model of an earlier round, as from a client's second round on. Measures; asserts nothing.
"""

import sys
import time
from collections.abc import Sequence

import numpy as np
import torch

from server_app.choices import choices
from server_app.composition import compose_experiment
from task.device import prepare_process
from task.methods.base import LocalRound, Method
from task.seeding import torch_generator
from task.training import LocalTrainer, LossMeter

CLASSES, ROWS, WARM_UP = 10, 64, 3
NETWORKS = (("cnn", 32), ("resnet18", 32), ("cnn", 96), ("resnet18", 96))


def trainer(method: str, model: str) -> LocalTrainer:
    """A client's training as it is after ``start``, in a round that is not its first."""
    words = [f"method={method}", f"model={model}", f"batch_size={ROWS}"]
    local = compose_experiment(words).local()
    own = local.local_method()
    network = own.build(local.network().build(3, CLASSES), torch_generator(0, "build"))
    network = network.to(memory_format=torch.channels_last).train()
    made = LocalTrainer(network, own, local)
    own.start(network, LocalRound(2, 0, torch_generator(0, "draws"), memory_of(own, made)))
    return made


def memory_of(method: Method, made: LocalTrainer) -> dict[str, torch.Tensor]:
    """What the method keeps from a client's first round."""
    method.start(made.model, LocalRound(1, 0, torch_generator(0, "draws")))
    made.step(torch.randn(ROWS, 3, 64, 64), torch.randint(CLASSES, (ROWS,)), LossMeter())
    return dict(method.finish(made.model).memory)


def measure(model: str, size: int, steps: int) -> None:
    """Print the rows of one network at one size."""
    trainers = {method: trainer(method, model) for method in runnable(model)}
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
    """The methods that this network can be trained by, FedAvg first."""
    every = sorted(choices()["method"], key=lambda method: (method != "fedavg", method))
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
