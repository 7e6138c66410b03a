"""Compare the seconds of our round with the bare loop and with other simulators.

    uv run python -m benchmarks.rounds [REPEATS]     (about 8 minutes each, two cores)

Ten clients of 500 random images of 32x32 train `cnn` by federated averaging: two local epochs,
batch 64, crop and flip, five rounds. The first round is left out, as processes warm up in it. Ours
also holds out validation images and evaluates them each round, which the others do not. The others
are Flower in the style of its quickstarts, with a SuperNode per client, and pfl, fluke, FedLab and
BlazeFL, each in an environment of its own, which the benchmark makes with uv, and in two layouts:
the one its users write, and the one that is kindest to it (`benchmarks/peers/shared.py`). BlazeFL's
needs Python 3.12: on the PATH, or uv downloads it.
"""

import csv
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from benchmarks import quickstart
from benchmarks.bare_loop import CLASSES, Work, run
from benchmarks.peers.environments import python_of
from server_app.config.composition import compose_experiment
from task.data.federated import FederatedData, federate
from tests.processes import UNIVARFL

ROUNDS, CLIENTS, IMAGES = 5, 10, 5560
# Each peer's modules. pfl requires dp-accounting below 0.6, and we 0.6 or later.
PEERS = {
    ("pfl==0.6.0", "dp-accounting==0.5.1"): {"pfl 0.6.0": "with_pfl"},
    ("fluke-fl==0.8.1",): {"fluke-fl 0.8.1": "with_fluke"},
    ("fedlab==1.3.0",): {"fedlab 1.3.0": "with_fedlab"},
    ("blazefl==3.0.0", "tqdm"): {
        "BlazeFL 3.0.0": "with_blazefl",
        "BlazeFL 3.0.0, pool of 2 processes": "with_blazefl_pool",
    },
}
# BlazeFL requires Python 3.14, but of what is newer than 3.12 it uses only deferred annotations.
NEWER = {"blazefl==3.0.0": "3.12"}
ROOT = Path(__file__).parents[1]
EXPERIMENT = (
    "method=fedavg", "partition=iid", f"num_clients={CLIENTS}", f"rounds={ROUNDS}",
    "local_epochs=2", "batch_size=64", f"evaluate_every={ROUNDS}", "data.image_size=32",
    "data.test_share=0",
)  # fmt: skip


def make(root: Path, count: int = IMAGES) -> list[str]:
    """Write images, and return the overrides that select them and the experiment."""
    generator = np.random.default_rng(0)
    for index in range(count):
        path = root / f"class_{index % CLASSES}" / f"{index:05}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(generator.integers(0, 256, (32, 32, 3), dtype=np.uint8)).save(path)
    return ["data=folder", f"data.root={root}", *EXPERIMENT]


def ours(words: Sequence[str], *more: str) -> list[float]:
    """Run ``univarfl train``, and return the seconds of each round from its record."""
    with tempfile.TemporaryDirectory() as place:
        command = [UNIVARFL, "train", *words, *more, f"output_dir={place}"]
        subprocess.run(command, check=True, capture_output=True)
        (directory,) = Path(place).iterdir()
        return round_seconds(directory)


def round_seconds(directory: Path) -> list[float]:
    """Return the seconds of each round of a run."""
    with (directory / "rounds.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["metric"] == "seconds"]
    return [float(row["value"]) for row in rows]


def bare_work(data: FederatedData, clients: Iterable[int], rounds: int) -> Work:
    """Return the work of some of our clients, for the bare loop."""
    return Work(
        torch.from_numpy(np.array(data.dataset.images)),
        torch.from_numpy(data.dataset.labels),
        [torch.from_numpy(data.clients[client].train) for client in clients],
        epochs=2, batch_size=64, rounds=rounds,
    )  # fmt: skip


def peer(python: Path, module: str, layout: str, work: Work) -> list[float]:
    """Run another simulator in its environment, and return the seconds of each round."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "work.npz"
        np.savez(path, **work.arrays())
        command = [str(python), "-m", "benchmarks.peers", module, layout, str(path)]
        done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return list(json.loads(done.stdout.splitlines()[-1]))


def main(words: Sequence[str]) -> None:
    """Measure each in turn, several times, and print medians and ratios."""
    with tempfile.TemporaryDirectory() as place:
        overrides = make(Path(place))
        data = federate(compose_experiment(overrides).local())
        work = bare_work(data, range(CLIENTS), ROUNDS)
        contestants: dict[str, Callable[[], list[float]]] = {
            "bare, 1 process of 1 thread": lambda: run(work, 1, 1),
            "ours, in one process": lambda: ours(overrides, "federation.workers=1"),
            "ours, in 2 processes without Ray": lambda: ours(overrides, "federation.workers=2"),
            "bare, 1 process of 2 threads": lambda: run(work, 1, 2),
            "bare, 2 processes of 1 thread": lambda: run(work, 2, 1),
            "the same, keeping freed memory": lambda: run(work, 2, 1, tuned=True),
            "ours, Flower and Ray, 2 workers": lambda: ours(overrides, "federation.workers=2"),
            "Flower, quickstart style, 2 clients at a time": lambda: quickstart.run(work),
        }
        for requirements, modules in PEERS.items():
            python = python_of(requirements, NEWER.get(requirements[0], ""))
            for (name, module), layout in product(modules.items(), ("own", "kindest")):
                label = f"{name}, {layout} layout"
                contestants[label] = partial(peer, python, module, layout, work)
        seconds: dict[str, list[float]] = {name: [] for name in contestants}
        for _ in range(int(words[0]) if words else 3):
            for name, contestant in contestants.items():
                seconds[name] += contestant()[1:]
                print(f"{name}: {seconds[name][-1]:.2f} s", file=sys.stderr, flush=True)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    alone, best = medians["bare, 1 process of 1 thread"], medians["bare, 2 processes of 1 thread"]
    print("| | s/round, median (least to most) | to 1 x 1 | to 2 x 1 |\n|---|---|---|---|")
    for name, values in seconds.items():
        spread = f"{medians[name]:.2f} ({min(values):.2f} to {max(values):.2f})"
        print(f"| {name} | {spread} | {medians[name] / alone:.2f} | {medians[name] / best:.2f} |")


if __name__ == "__main__":
    main(sys.argv[1:])
