"""Measure the time of a training step in bfloat16 over that of the same step in float32.

    uv run python -m benchmarks.precision [STEPS] [MODEL SIZE ...]    (10 minutes at 20 steps)

Each turn takes one step of every row on the same batch of 64 random images, channels last, in one
process on one thread, in a new random order. "bare" is the network, its cross-entropy under
`torch.autocast` and PyTorch's SGD, without our code; "bare, weights too" also keeps weights and
momentum in bfloat16. Time is CPU time of the process; ratios are those of medians.
"""

import sys
import time
from collections.abc import Callable, Sequence

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812  (PyTorch's own abbreviation)
from torch import Tensor

from benchmarks.steps import CLASSES, ROWS, WARM_UP, trainer
from server_app.config.composition import compose_experiment
from task.training.device import prepare_process
from task.training.losses import LossMeter

NETWORKS = (("cnn", 96), ("resnet18", 32), ("cnn", 32))
Step = Callable[[Tensor, Tensor], object]


def our_step(words: Sequence[str]) -> Step:
    """Return a step of our training loop."""
    ours, meter = trainer(words, torch.device("cpu")), LossMeter()
    return lambda x, y: ours.step(x, y, meter)


def bare_step(model: str, autocast: bool, dtype: torch.dtype) -> Step:
    """Return a step of a loop in plain PyTorch, whose weights have this type."""
    network = compose_experiment([f"model={model}"]).local().network().build(3, CLASSES)
    network = network.to(memory_format=torch.channels_last).to(dtype).train()
    optimizer = torch.optim.SGD(
        network.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-5, foreach=False
    )

    def step(x: Tensor, y: Tensor) -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            loss = F.cross_entropy(network(x.to(dtype)).logits, y)
        loss.backward()
        optimizer.step()

    return step


def measure(model: str, size: int, steps: int) -> None:
    """Print the rows of one network at one size."""
    words = [f"model={model}", f"batch_size={ROWS}"]
    rows: dict[tuple[str, str], Step] = {
        (method, precision): our_step(
            [f"method={method}", f"runtime.precision={precision}", *words]
        )
        for method in ("fedavg", "univarfl")
        for precision in ("float32", "bfloat16")
    }
    rows["bare", "float32"] = bare_step(model, False, torch.float32)
    rows["bare", "bfloat16"] = bare_step(model, True, torch.float32)
    rows["bare", "bfloat16, weights too"] = bare_step(model, False, torch.bfloat16)
    seconds: dict[tuple[str, str], list[float]] = {row: [] for row in rows}
    generator = np.random.default_rng(0)
    for turn in range(WARM_UP + steps):
        x = torch.randn(ROWS, 3, size, size).to(memory_format=torch.channels_last)
        y = torch.randint(CLASSES, (ROWS,))
        for at in generator.permutation(len(rows)):
            row = list(rows)[at]
            started = time.process_time()
            rows[row](x, y)
            if turn >= WARM_UP:
                seconds[row].append(time.process_time() - started)
    for (loop, precision), own in seconds.items():
        ratio = np.median(own) / np.median(seconds[loop, "float32"])
        print(
            f"| {model} {size}x{size} | {loop} | {precision} | {np.median(own) * 1e3:.1f} "
            f"| {ratio:.3f} |",
            flush=True,
        )


def main(words: Sequence[str]) -> None:
    """Print the table."""
    prepare_process()
    steps = int(words[0]) if words else 20
    wanted = list(zip(words[1::2], words[2::2], strict=True)) if words[1:] else NETWORKS
    print("| network | loop | precision | ms a step | to float32 |\n|---|---|---|---|---|")
    for model, size in wanted:
        measure(model, int(size), steps)


if __name__ == "__main__":
    main(sys.argv[1:])
