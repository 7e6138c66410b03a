"""A run's final model, loaded for inference."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from server_app.aggregation.weights import to_tensors
from task.config import GIVEN_ABOVE, Device, LocalConfig
from task.inference.classifier import Classifier
from task.registry import named
from task.tensors import Tensors
from task.training.device import choose_device, prepare_process, set_precision
from univarfl.records.reader import Run
from univarfl.records.trained import (
    completed_run,
    layers_differ,
    local_config_of,
    weights_of_client,
)

ROWS = "task.inference.row_classifier:RowClassifier"  # of tables of numbers
JOINT = "|"  # between several labels
MOST_TIMES = 2  # a network may have more numbers than its file, such as fixed ones


@dataclass(frozen=True)
class TrainedModel:
    """A run's final model.

    Attributes:
        run: its record.
        classes: the class names, in the order of the probabilities.
        classifier: the network, on its device.
        client: the client whose own model it is; None for the global model.
    """

    run: Run
    classes: list[str]
    classifier: Classifier
    client: int | None = None

    def said(self, probabilities: NDArray[np.float32]) -> list[str]:
        """Return the class of an example, or all labels that it has, by its probabilities [D]."""
        if self.classifier.multilabel:
            return [self.classes[place] for place in np.flatnonzero(probabilities > GIVEN_ABOVE)]
        return [self.classes[int(probabilities.argmax())]]


def trained_model(
    directory: Path, device: Device = "auto", client: int | None = None
) -> TrainedModel:
    """Load the final model of the run in a directory.

    Args:
        directory: the run's.
        device: the device to compute on.
        client: the client whose own model is loaded, if each one keeps a part; None for the global
            model.

    Raises:
        ConfigError: there is no final model, or it does not fit this version of univarfl.
        DeviceError: the device does not exist.
    """
    run = completed_run(directory)
    config = local_config_of(run, device)
    classes = run.data.classes
    prepare_process()
    where = choose_device(device)
    set_precision(config.runtime.precision, where)
    weights = to_tensors(weights_of_client(run, client))
    if numbers_of(config, len(classes)) > MOST_TIMES * sum(map(torch.numel, weights.values())):
        raise layers_differ(run)
    try:
        classifier = classifier_of(config, len(classes), weights)
    except RuntimeError:
        raise layers_differ(run) from None
    return TrainedModel(run, classes, classifier.to(where), client)


def numbers_of(config: LocalConfig, classes: int) -> int:
    """Return how many numbers the network of a run has, without allocating it.

    Args:
        config: the run's.
        classes: the number of classes.
    """
    with torch.device("meta"):
        network = config.network().build(config.source().channels, classes)
    added = config.local_method().added_numbers(network)
    return sum(map(torch.numel, network.state_dict().values())) + added


def classifier_of(config: LocalConfig, classes: int, weights: Tensors) -> Classifier:
    """Return the trained network of an experiment, for images or for rows of numbers.

    Raises:
        ConfigError, RuntimeError: as for `Classifier`.
    """
    kind = named(ROWS) if config.source().vectors else Classifier
    found: Classifier = kind(config, classes, weights)
    return found
