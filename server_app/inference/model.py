"""A run's final model, loaded for inference."""

from dataclasses import dataclass
from pathlib import Path

from server_app.aggregation.weights import to_tensors
from server_app.runs.records.reader import Run
from server_app.runs.records.trained import (
    completed_run,
    final_weights,
    layers_differ,
    local_config_of,
)
from task.config import Device
from task.inference.classifier import Classifier
from task.training.device import choose_device, prepare_process


@dataclass(frozen=True)
class TrainedModel:
    """A run's final global model.

    Attributes:
        run: its record.
        classes: the class names, in the order of the probabilities.
        classifier: the network, on its device.
    """

    run: Run
    classes: list[str]
    classifier: Classifier


def trained_model(directory: Path, device: Device = "auto") -> TrainedModel:
    """Load the final global model of the run in a directory.

    Raises:
        ConfigError: there is no final model, or it does not fit this version of univarfl.
        DeviceError: the device does not exist.
    """
    run = completed_run(directory)
    config = local_config_of(run, device)
    classes: list[str] = run.record["data"]["classes"]
    prepare_process()
    try:
        classifier = Classifier(config, len(classes), to_tensors(final_weights(run)))
    except RuntimeError:
        raise layers_differ(run) from None
    return TrainedModel(run, classes, classifier.to(choose_device(device)))
