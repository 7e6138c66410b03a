"""What an epoch's incomplete last batch costs: kept as it is, against joined to the one before.

    uv run python -m tests.benchmarks.last_batch            (about 6 minutes on two cores)

Trains the default experiment with seeds 0 to 2 both ways, in this process, and prints the final
test accuracies. Measures; asserts nothing.
"""

import statistics
import tempfile
from collections.abc import Callable
from unittest.mock import patch

from torch import Tensor

from server_app.composition import compose_experiment
from server_app.run_record import read_record
from server_app.train import train_experiment
from task.data.batches import training_batches


def as_it_is(order: Tensor, batch_size: int) -> list[Tensor]:
    """Whatever remains is the last batch; only a single row joins, for batch norm's sake."""
    batches = list(order.split(batch_size))
    return training_batches(order, batch_size) if len(batches[-1]) == 1 else batches


def accuracy(seed: int, place: str) -> float:
    """The final test accuracy of the default experiment."""
    words = ["engine=inprocess", f"seed={seed}", f"output_dir={place}"]
    record = read_record(train_experiment(compose_experiment(words), words))
    return float(record["results"]["test"]["accuracy"])


def main() -> None:
    """Measure both ways."""
    ways: dict[str, Callable[[Tensor, int], list[Tensor]]] = {
        "joined": training_batches,
        "as it is": as_it_is,
    }
    lines = []
    for name, cut in ways.items():
        with tempfile.TemporaryDirectory() as place, patch("task.training.training_batches", cut):
            found = [accuracy(seed, place) for seed in range(3)]
        shown = "  ".join(f"{value:.3f}" for value in found)
        lines.append(f"last batch {name:<9} {shown}  mean {statistics.mean(found):.3f}")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
