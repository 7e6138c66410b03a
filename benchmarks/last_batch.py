"""Compare two ways to train an epoch's incomplete last batch: as it is, or joined to the previous.

    uv run python -m benchmarks.last_batch            (about 6 minutes on two cores)

Trains the default experiment with seeds 0 to 2 in both ways, in this process, and prints the final
test accuracies.
"""

import statistics
import tempfile
from collections.abc import Callable
from unittest.mock import patch

from torch import Tensor

from server_app.config.composition import compose_experiment
from server_app.runs.records.run_record import read_record
from task.config import LastBatch
from task.data.batches import training_batches
from univarfl.engines.train import train_experiment


def kept(order: Tensor, batch_size: int, last_batch: LastBatch) -> list[Tensor]:
    """Keep the remainder as a batch; join only a single row, which batch norm cannot take."""
    batches = list(order.split(batch_size))
    return training_batches(order, batch_size, last_batch) if len(batches[-1]) == 1 else batches


def accuracy(seed: int, place: str) -> float:
    """Train the default experiment, and return its final test accuracy."""
    words = ["engine=inprocess", f"seed={seed}", f"output_dir={place}"]
    record = read_record(train_experiment(compose_experiment(words), words))
    return record.results.test["accuracy"]


def main() -> None:
    """Train in both ways, and print the accuracies."""
    ways: dict[str, Callable[[Tensor, int, LastBatch], list[Tensor]]] = {
        "joined": training_batches,
        "as it is": kept,
    }
    lines = []
    for name, cut in ways.items():
        with (
            tempfile.TemporaryDirectory() as place,
            patch("task.data.batches.training_batches", cut),
        ):
            found = [accuracy(seed, place) for seed in range(3)]
        shown = "  ".join(f"{value:.3f}" for value in found)
        lines.append(f"last batch {name:<9} {shown}  mean {statistics.mean(found):.3f}")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
