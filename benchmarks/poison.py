"""Measure what hostile clients do to a federation on digits, and which aggregations resist.

    uv run python -m benchmarks.poison   (twenty minutes on two cores)

Two of ten clients are hostile in every round. They send their update 100 times as long, their
weights with the opposite sign, or random weights. A row is a way to aggregate; a cell is the mean
and sample standard deviation of the final test accuracy, in % over three seeds.
"""

import itertools
import sys
import tempfile
from pathlib import Path
from statistics import mean, stdev

from joblib import Parallel, cpu_count, delayed

import task.methods
from server_app.config.composition import compose_experiment
from server_app.runs.records.run_record import read_record
from task.errors import RunError
from tests.conftest import PARTS, faulty
from univarfl.engines.train import train_experiment

ROUNDS = 12
HOSTILE = [3, 7]
SEEDS = (0, 1, 2)
KINDS = ("clean", "scale", "flip", "random")
WAYS = {
    "fedavg": "strategy=fedavg",
    "fedavg guard=drop": "strategy=fedavg guard=drop",
    "fedavg guard=clip": "strategy=fedavg guard=clip",
    "fedmedian": "strategy=fedmedian",
    "fedtrimmedavg": "strategy=fedtrimmedavg",
    "krum": "strategy=krum strategy.num_malicious=2",
    "multikrum": "strategy=multikrum strategy.num_malicious=2",
    "bulyan, of 11 clients": "strategy=bulyan strategy.num_malicious=2 num_clients=11",
}


def words_of(way: str, kind: str, seed: int) -> list[str]:
    """Return the overrides of one run."""
    clients = [] if kind == "clean" else HOSTILE
    rounds = list(range(1, ROUNDS + 1))
    return [
        *faulty(clients, rounds, kind), *WAYS[way].split(), f"seed={seed}", f"rounds={ROUNDS}",
        f"evaluate_every={ROUNDS}", "local_epochs=2", "engine=inprocess", *sys.argv[1:],
    ]  # fmt: skip


def accuracy(way: str, kind: str, seed: int) -> float:
    """Train once, and return the final test accuracy; 0 if the run failed."""
    task.methods.__path__ = [*task.methods.__path__, str(PARTS / "methods")]
    with tempfile.TemporaryDirectory() as place:
        words = [*words_of(way, kind, seed), f"output_dir={place}"]
        try:
            directory = train_experiment(compose_experiment(words), words)
        except RunError:
            return 0.0
        return read_record(Path(directory)).results.test["accuracy"]


def main() -> None:
    """Run every cell, and print the table."""
    cells = list(itertools.product(WAYS, KINDS, SEEDS))
    found = Parallel(cpu_count(), verbose=1)(delayed(accuracy)(*cell) for cell in cells)
    results = dict(zip(cells, found, strict=True))
    print(f"| aggregation | {' | '.join(KINDS)} |\n|---|{'---|' * len(KINDS)}")
    for way in WAYS:
        row = []
        for kind in KINDS:
            values = [100 * results[way, kind, seed] for seed in SEEDS]
            row.append(f"{mean(values):.1f} ± {stdev(values):.1f}")
        print(f"| {way} | {' | '.join(row)} |")


if __name__ == "__main__":
    main()
