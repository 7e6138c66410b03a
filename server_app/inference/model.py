"""A run's model, ready to be used."""

from dataclasses import dataclass
from pathlib import Path

from server_app.report.records import Run
from server_app.trained import completed_run, other_layers, settings_of, weights_of
from server_app.weights import to_tensors
from task.config import Device
from task.device import choose_device, prepare_process
from task.inference import Classifier


@dataclass(frozen=True)
class TrainedModel:
    """A run's final global model.

    Attributes:
        run: its record.
        classes: the class names, in the order of the probabilities.
        classifier: on its device.
    """

    run: Run
    classes: list[str]
    classifier: Classifier


def trained_model(directory: Path, device: Device = "auto") -> TrainedModel:
    """The final global model of the run in a directory.

    Raises:
        ConfigError: there is none, or another version of the code made it.
        DeviceError: the wanted device is not there.
    """
    run = completed_run(directory)
    config = settings_of(run, device)
    classes: list[str] = run.record["data"]["classes"]
    prepare_process()
    try:
        classifier = Classifier(config, len(classes), to_tensors(weights_of(run)))
    except RuntimeError:
        raise other_layers(run) from None
    return TrainedModel(run, classes, classifier.to(choose_device(device)))
