"""Measure what batch norm's averaged statistics cost.

    uv run python -m benchmarks.norm_statistics              (four minutes)
    uv run python -m benchmarks.norm_statistics DIRECTORY    (a minute for each run in it)

The statistics of each final global model are replaced by those of all clients' training images, as
``after=batch_norm`` does. The weights stay the same. Prints the test accuracy before and after, in
%. If the clients hold domains, it also prints the accuracy with the statistics of each test image's
own domain.

Without a directory, the base setting of the study "chance" (benchmarks/studies.py) is trained
first, in this process. A directory has finished runs with their models.
"""

import sys
import tempfile
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn

from benchmarks.studies import CHANCE
from server_app.config.composition import compose_experiment
from task.models.layers.norm import batch_norm_layers, layers_in_order
from task.training.after.moments import input_moments
from task.training.evaluation import evaluate
from task.training.worker import Worker
from univarfl.analysis.analysed_run import AnalysedRun
from univarfl.engines.train import train_experiment
from univarfl.records.reader import Run, read_run, read_runs

ALL = 1_000_000


def trained() -> Iterator[Run]:
    """Train each method, participation and seed, and yield the runs."""
    for method, rho, seed in product(("fedavg", "univarfl"), (0.1, 1.0), range(3)):
        with tempfile.TemporaryDirectory() as place:
            words = [*CHANCE.split(), f"method={method}", f"rho={rho}", f"seed={seed}"]
            words += ["engine=inprocess", "watch.tensorboard=false", f"output_dir={place}"]
            yield read_run(Path(train_experiment(compose_experiment(words), words)))


def accuracies(run: Run) -> list[float]:
    """Return the accuracy with averaged statistics, those of all images, and those of domains."""
    analysed = AnalysedRun(run, ALL)
    data = analysed.worker.data.dataset
    test, train = torch.from_numpy(data.test), torch.cat(list(analysed.clients.values()))
    found = [accuracy(analysed, analysed.model(), test), measured(analysed, train, test)]
    if len(data.domains) > 1:
        domain_of, total = torch.from_numpy(data.domain_of), 0.0
        for each in range(len(data.domains)):
            own = test[domain_of[test] == each]
            total += measured(analysed, train[domain_of[train] == each], own) * len(own)
        found.append(total / len(test))
    return found


def measured(analysed: AnalysedRun, images: Tensor, test: Tensor) -> float:
    """Return a model's accuracy on test images, with the statistics of other images."""
    model = analysed.model()
    set_statistics(model, analysed.worker, images)
    return accuracy(analysed, model, test)


def set_statistics(model: nn.Module, worker: Worker, images: Tensor) -> None:
    """Replace a model's batch-norm statistics by those of images, one layer after another."""
    _, size, _, channels = worker.data.dataset.images.shape
    layers = batch_norm_layers(model)
    for name in layers_in_order(model, channels, size):
        mean, variance = input_moments(model, name, worker.images, images)
        cast("Tensor", layers[name].running_mean).copy_(mean)
        cast("Tensor", layers[name].running_var).copy_(variance)


def accuracy(analysed: AnalysedRun, model: nn.Module, test: Tensor) -> float:
    """Return a model's accuracy on test images in %."""
    (score,) = evaluate(model, analysed.worker.images, [test])
    return 100 * score.means()["accuracy"]


def main() -> None:
    """Print a row for each run."""
    print("| method | rho | seed | averaged | of all images | of each domain |")
    print("|---|---|---|---|---|---|")
    for run in read_runs(Path(sys.argv[1])).runs if sys.argv[1:] else trained():
        config = run.config
        row = [config["method"]["name"], config["rho"], config["seed"]]
        values = [f"{value:.1f}" for value in accuracies(run)]
        print("|", " | ".join(map(str, [*row, *values])), "|", flush=True)


if __name__ == "__main__":
    main()
