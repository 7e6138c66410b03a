"""Measure what batch norm's averaged statistics cost at alpha 0.01.

    uv run python -m benchmarks.norm_statistics       (four minutes)

Trains the base setting of the study "chance" (benchmarks/studies.py), in this process. Then the
statistics of each final global model are replaced by those of all clients' training images. The
weights stay the same. Prints the test accuracy before and after, in %.
"""

import tempfile
from itertools import product
from pathlib import Path

import torch
from torch import nn

from benchmarks.studies import CHANCE
from server_app.analysis.analysed_run import AnalysedRun
from server_app.config.composition import compose_experiment
from server_app.engines.train import train_experiment
from server_app.runs.records.reader import read_run
from task.models.layers.norm import measure_statistics
from task.training.evaluation import evaluate

BATCH, ALL = 128, 1_000_000


def accuracies(words: list[str]) -> tuple[float, float]:
    """Train, and return the final accuracy with the averaged and with the measured statistics."""
    with tempfile.TemporaryDirectory() as place:
        words = [*words, "engine=inprocess", "watch.tensorboard=false", f"output_dir={place}"]
        run = read_run(Path(train_experiment(compose_experiment(words), words)))
        analysed = AnalysedRun(run, ALL)
        before = accuracy(analysed, analysed.model())
        model = analysed.model()
        measure_on_all(analysed, model)
        return before, accuracy(analysed, model)


def measure_on_all(analysed: AnalysedRun, model: nn.Module) -> None:
    """Replace batch norm's statistics by those of all clients' training images."""
    positions = torch.cat(list(analysed.clients.values()))
    order = torch.randperm(len(positions), generator=torch.Generator().manual_seed(0))
    parts = positions[order].split(BATCH)
    measure_statistics(model, (analysed.worker.images[part][0] for part in parts))
    model.eval()


def accuracy(analysed: AnalysedRun, model: nn.Module) -> float:
    """Return a model's test accuracy in %."""
    test = torch.from_numpy(analysed.worker.data.dataset.test)
    (score,) = evaluate(model, analysed.worker.images, [test])
    return 100 * score.means()["accuracy"]


def main() -> None:
    """Print a row for each method, participation and seed."""
    print("| method | rho | seed | averaged statistics | statistics of all images |")
    print("|---|---|---|---|---|")
    for method, rho, seed in product(("fedavg", "univarfl"), (0.1, 1.0), range(3)):
        words = [*CHANCE.split(), f"method={method}", f"rho={rho}", f"seed={seed}"]
        before, after = accuracies(words)
        print(f"| {method} | {rho} | {seed} | {before:.1f} | {after:.1f} |", flush=True)


if __name__ == "__main__":
    main()
