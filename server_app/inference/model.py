"""A run's final model, loaded for inference."""

from dataclasses import dataclass
from pathlib import Path

from server_app.aggregation.weights import to_tensors
from server_app.runs.records.reader import Run
from server_app.runs.records.trained import (
    completed_run,
    layers_differ,
    local_config_of,
    weights_of_client,
)
from task.config import Device
from task.inference.classifier import Classifier
from task.training.device import choose_device, prepare_process, set_precision


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
    classes: list[str] = run.record["data"]["classes"]
    prepare_process()
    where = choose_device(device)
    set_precision(config.runtime.precision, where)
    try:
        classifier = Classifier(config, len(classes), to_tensors(weights_of_client(run, client)))
    except RuntimeError:
        raise layers_differ(run) from None
    return TrainedModel(run, classes, classifier.to(where), client)
