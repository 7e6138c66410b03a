"""Measure what FedBN's statistics cost after the shared layers were averaged.

    uv run python -m benchmarks.personal_statistics DIRECTORY    (PACS; three minutes)

Trains FedBN as the study "clients" does (benchmarks/studies.py), in this process. Prints the
accuracy in % on each client's held-out images three times: of the model that the client trained;
of the averaged layers with the client's batch norm, which is FedBN's model; and of the same with
statistics that are measured again on the client's training images.
"""

import sys
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from benchmarks.studies import PACS
from server_app.config.composition import compose_experiment
from task.exact_sum import ExactSum, normalise_weights
from task.methods.base import Tensors
from task.training.evaluation import Score, evaluate
from task.training.loop import LocalResult
from task.training.worker import Worker

BATCH = 256


def main() -> None:
    """Train, and print a row for each of the three models."""
    words = [*PACS.split(), "rounds=15", "local_epochs=2", "method=fedbn"]
    worker = Worker(compose_experiment([*words, f"data.root={sys.argv[1]}"]).local())
    clients = list(worker.data.clients)
    weights: Tensors = worker.initial_weights()
    results: dict[int, LocalResult] = {}
    for server_round in range(1, worker.config.rounds + 1):
        states = {c: results[c].state if c in results else {} for c in clients}
        results = {c: worker.train(weights, server_round, c, states[c]) for c in clients}
        trained, weights = results, mean(weights, results)
    print("| model | " + " | ".join(worker.data.dataset.domains) + " |")
    show("as trained", [own(worker, trained[c].weights, c, trained[c].state) for c in clients])
    show("averaged", [own(worker, weights, c, trained[c].state) for c in clients])
    show("averaged, measured again", [again(worker, weights, c, trained[c].state) for c in clients])


def mean(before: Tensors, results: dict[int, LocalResult]) -> dict[str, Tensor]:
    """Return the mean of the clients' shared layers, weighted by their images."""
    total = ExactSum(before)
    shares = normalise_weights({client: found.examples for client, found in results.items()})
    for client, found in results.items():
        total.add(total.to_fixed_point(found.weights, shares[client]))
    return {name: value.to(before[name].dtype) for name, value in total.mean(1.0).items()}


def own(worker: Worker, weights: Tensors, client: int, state: Tensors) -> Score:
    """Return the score of a client's model."""
    return worker.validate_personal(weights, client, state)


def again(worker: Worker, weights: Tensors, client: int, state: Tensors) -> Score:
    """Return the score of a client's model after its statistics were measured again."""
    own(worker, weights, client, state)  # loads the model
    measure(worker.model, worker.images.index(worker.data.clients[client].train), worker)
    held_out = worker.images.index(worker.data.clients[client].validation)
    return evaluate(worker.model, worker.images, [held_out])[0]


def measure(model: nn.Module, positions: Tensor, worker: Worker) -> None:
    """Replace batch norm's statistics by those of some images."""
    layers = [layer for layer in model.modules() if isinstance(layer, _BatchNorm)]
    momentum = [layer.momentum for layer in layers]
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None  # the mean of all batches counts
    order = torch.randperm(len(positions), generator=torch.Generator().manual_seed(0))
    model.train()
    with torch.no_grad():
        for batch in positions[order].split(BATCH):
            model(worker.images[batch][0])
    for layer, value in zip(layers, momentum, strict=True):
        layer.momentum = value


def show(name: str, scores: Sequence[Score]) -> None:
    """Print a row of accuracies."""
    cells = [f"{100 * score.correct / score.examples:.1f}" for score in scores]
    print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
