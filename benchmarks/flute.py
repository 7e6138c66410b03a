"""Run FLUTE's race: logistic regression on MNIST, 10 of 1,000 clients a round, 100 rounds.

    uv run python -m benchmarks.flute DIRECTORY [REPEATS]     (a minute and a half each, two cores)

DIRECTORY contains ``MNIST/raw``. The protocol is that of FLUTE's README (microsoft/msrflute,
experiments/cv_lr_mnist): a linear layer with a sigmoid, one local epoch, batch 10, SGD with
learning rate 0.03, tested every 20 rounds. Prints medians of whole commands, from their start to
their end, and of their rounds, for both engines and a bare loop of the same work. The images are
in the image store before.

Differences from FLUTE: clients share MNIST's 60,000 training images by ``partition=power_law``, and
the test set is MNIST's own. FLUTE's clients share almost all 70,000 images with the same law, and
nine tenths of each client's are for training. Ours also hold out a tenth, for validation.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812  (PyTorch's own abbreviation)
from torch import Tensor, nn

from benchmarks.bare_loop import Work
from server_app.runs.records.run_record import read_record
from tests.processes import UNIVARFL

CLIENTS, RHO, ROUNDS, EVERY, BATCH, RATE = 1000, 0.01, 100, 20, 10, 0.03
EXPERIMENT = (
    "data=mnist", "model=linear", "model.sigmoid=true", "method=fedavg", "partition=power_law",
    f"num_clients={CLIENTS}", f"rho={RHO}", f"rounds={ROUNDS}", f"evaluate_every={EVERY}",
    "local_epochs=1", f"batch_size={BATCH}", f"optim.lr={RATE}", "optim.momentum=0",
    "optim.weight_decay=0",
)  # fmt: skip
PUBLISHED = {
    "Flower 1.0.0 on CPU, published by FLUTE": ("1814", "", "about 80"),
    "FLUTE on CPU, published": ("200", "", "about 80"),
}
MEAN, STD = 0.1307, 0.3081


class Finish(NamedTuple):
    """A race's seconds from start to end, those of its rounds, and its accuracy in [0, 1]."""

    command: float
    rounds: float
    accuracy: float


def save_work(root: Path, path: Path) -> None:
    """Write the race's images, clients and samples into a file for `bare`."""
    # Imported here because the bare loop needs none of it.
    from server_app.config.composition import compose_experiment
    from server_app.rounds.sampling import sample_clients
    from task.data.federated import federate

    experiment = compose_experiment([*EXPERIMENT, f"data.root={root}"])
    data = federate(experiment.local())
    work = Work(
        torch.from_numpy(np.array(data.dataset.images)),
        torch.from_numpy(data.dataset.labels),
        [torch.from_numpy(data.clients[client].train) for client in range(CLIENTS)],
        epochs=1, batch_size=BATCH, rounds=ROUNDS,
    )  # fmt: skip
    sampled = [sample_clients(CLIENTS, RHO, experiment.seed, 1 + each) for each in range(ROUNDS)]
    np.savez(path, **work.arrays(), test=data.dataset.test, sampled=np.array(sampled))


def inputs(pixels: Tensor) -> Tensor:
    """Return pixels [n, 28, 28, 1] as normalised rows [n, 784]."""
    return pixels.flatten(1).float().mul_(1 / (255 * STD)).sub_(MEAN / STD)


def bare(path: Path) -> dict[str, float]:
    """Run the race as a bare loop, which samples, checks and records nothing."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    arrays = np.load(path)
    work, test, sampled = (
        Work.of_arrays(arrays),
        torch.from_numpy(arrays["test"]),
        arrays["sampled"],
    )
    model = nn.Linear(784, 10)
    parameters = list(model.parameters())
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    started, accuracy = time.perf_counter(), 0.0
    for number, clients in enumerate(sampled.tolist(), start=1):
        images = sum(len(work.clients[client]) for client in clients)
        total = {name: torch.zeros_like(value) for name, value in weights.items()}
        for client in clients:
            model.load_state_dict(weights)
            positions = work.clients[client]
            for batch in positions[torch.randperm(len(positions))].split(work.batch_size):
                logits = model(inputs(work.images[batch])).sigmoid()
                loss = F.cross_entropy(logits, work.labels[batch])
                gradients = torch.autograd.grad(loss, parameters)
                with torch.no_grad():
                    for parameter, gradient in zip(parameters, gradients, strict=True):
                        parameter.sub_(gradient, alpha=RATE)
            for name, value in model.state_dict().items():
                total[name] += value * (len(positions) / images)
        weights = total
        if number % EVERY == 0:
            model.load_state_dict(weights)
            with torch.inference_mode():
                predicted = model(inputs(work.images[test])).argmax(1)
            accuracy = float((predicted == work.labels[test]).double().mean())
    return {"rounds": time.perf_counter() - started, "accuracy": accuracy}


def time_bare(path: Path) -> Finish:
    """Time the bare loop in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.flute", "bare", str(path)]
    started = time.perf_counter()
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return Finish(time.perf_counter() - started, **json.loads(output.splitlines()[-1]))


def time_ours(root: Path, word: str) -> Finish:
    """Time ``univarfl train``."""
    with tempfile.TemporaryDirectory() as place:
        words = [f"data.root={root}", word, f"output_dir={place}"]
        started = time.perf_counter()
        command = [UNIVARFL, "train", *EXPERIMENT, *words]
        subprocess.run(command, check=True, capture_output=True)
        seconds = time.perf_counter() - started
        (directory,) = Path(place).iterdir()
        record = read_record(directory)
        lines = [line.split(",") for line in (directory / "rounds.csv").read_text().splitlines()]
    rounds = sum(float(value) for _, _, metric, value in lines if metric == "seconds")
    return Finish(seconds, rounds, record.results.test["accuracy"])


def report(found: dict[str, list[Finish]]) -> str:
    """Return the table of medians, their ranges and their ratios to the bare loop."""
    lines = [
        "| | whole command, s | rounds, s | accuracy, % | command, to bare | rounds, to bare |",
        "|---|---|---|---|---|---|",
    ]
    commands, rounds = (
        {name: [run[place] for run in runs] for name, runs in found.items()} for place in (0, 1)
    )
    bare_name = next(iter(found))
    for name, runs in found.items():
        ratios = [
            statistics.median(values[name]) / statistics.median(values[bare_name])
            for values in (commands, rounds)
        ]
        accuracy = 100 * statistics.median(run.accuracy for run in runs)
        cells = [name, spread(commands[name]), spread(rounds[name]), f"{accuracy:.1f}"]
        lines.append(f"| {' | '.join([*cells, *(f'{ratio:.2f}' for ratio in ratios)])} |")
    lines += [f"| {' | '.join([name, *cells])} | | |" for name, cells in PUBLISHED.items()]
    return "\n".join(lines)


def spread(values: Sequence[float]) -> str:
    """Return the median, the least and the most."""
    return f"{statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f})"


def main(root: Path, repeats: int) -> None:
    """Run every contestant in turn, several times, and print the table."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "work.npz"
        save_work(root, path)
        contestants: dict[str, Callable[[], Finish]] = {
            "bare loop, 1 thread": partial(time_bare, path),
            "`federation.workers=1`": partial(time_ours, root, "federation.workers=1"),
            "`engine=flower`": partial(time_ours, root, "engine=flower"),
        }
        found: dict[str, list[Finish]] = {name: [] for name in contestants}
        for _ in range(repeats):
            for name, contestant in contestants.items():
                found[name].append(contestant())
                print(name, found[name][-1], file=sys.stderr, flush=True)
    print(report(found))
    print(f"\n{os.cpu_count()} cores; FLUTE does not name its hardware.")


if __name__ == "__main__":
    if sys.argv[1] == "bare":
        print(json.dumps(bare(Path(sys.argv[2]))))
    else:
        main(Path(sys.argv[1]).absolute(), int(sys.argv[2]) if sys.argv[2:] else 3)
