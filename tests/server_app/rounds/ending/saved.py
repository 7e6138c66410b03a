"""The models of clients that a run has saved, scored again."""

from pathlib import Path

import torch

from server_app.aggregation.weights import to_tensors
from server_app.runs.records.client_scores import ClientScore, client_scores
from task.training.worker import Worker
from univarfl.inference.model import trained_model
from univarfl.records.trained import (
    completed_run,
    local_config_of,
    saved_clients,
    weights_of_client,
)


def scored_again(directory: Path) -> list[ClientScore]:
    """Return the score of each saved model on its client's validation images."""
    run = completed_run(directory)
    worker = Worker(local_config_of(run))
    scores = {}
    for client in saved_clients(directory):
        weights = to_tensors(weights_of_client(run, client))
        (scores[client],) = worker.validate(weights, [client])
    return client_scores(scores, [])


def predicted(directory: Path, client: int) -> float:
    """Return the accuracy of what ``predict`` would say of the client's validation images."""
    model = trained_model(directory, "cpu", client)
    data = Worker(local_config_of(model.run)).data
    positions = data.clients[client].validation
    pixels = torch.from_numpy(data.dataset.images[positions])
    classes = model.classifier.probabilities(pixels).argmax(dim=1).numpy()
    return float((classes == data.dataset.labels[positions]).mean())
