"""CCVR: the classifier is calibrated on features drawn from one Gaussian per class.

Stage: each client sends the count, mean and covariance of the features of each of its classes,
under the model of the last round in eval mode. The server combines them into one mean and one
covariance per class. It draws `samples` features per class from N(mean, covariance), and trains
only the classifier on them, with the cross-entropy.
Paper: Luo et al., "No Fear of Heterogeneity: Classifier Calibration for Federated Learning with
Non-IID Data", NeurIPS 2021. We have not read the paper. The equations are those of a
reimplementation, github.com/KarhouTam/FL-bench (src/server/ccvr.py, src/client/ccvr.py). How many
features the paper draws, how long it trains, and whether it transforms them is not established.
Upload: (d^2 + d + 2) float64 numbers for each class of a client, once. Client state: none.

Where FL-bench differs from ours: its clients divide by the count, but its server uses the formula
for unbiased covariances, so the combined covariance is too small. Ours is exact. FL-bench trains
the classifier for one epoch at the learning rate of the clients.

Our choices:

* Statistics are those of the training images, without augmentation, in float64.
* The classifier starts at the global one, and is trained with SGD for 10 epochs at 0.01.
* Negative eigenvalues count as 0. A class with one image has the covariance 0.
* A class without statistics is not drawn, and its logit is not part of the softmax. So its row of
  the classifier does not change; events.csv names the class.
* A client that fails, or whose site does not tell statistics, is left out; events.csv names it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from server_app.rounds.after.base import AfterTraining, StageResult, check_sgd
from task.errors import ConfigError, refuse
from task.tensors import Tensors

if TYPE_CHECKING:
    from torch import nn

    from server_app.config.experiment import Experiment
    from server_app.nodes.registration import NodeInfo
    from server_app.rounds.context import RoundContext
    from task.data.dataset import ImageDataset

NUMBER_BYTES, MEGABYTE = 8, 1e6
WEIGHT, BIAS = "classifier.weight", "classifier.bias"
NOBODY = (
    "no site sends statistics of its features; set tell-statistics = true in site.toml of "
    "the sites that agree, or add after=none"
)


@dataclass
class Ccvr(AfterTraining):
    """Calibrates the classifier with Gaussian features.

    Attributes:
        samples: the number of features that are drawn for each class, at least 1.
        epochs: the number of passes over them, at least 1.
        batch_size: features per step, at least 1.
        lr: the learning rate of SGD, above 0.
        momentum: the momentum of SGD, from 0 to below 1.
    """

    reads: ClassVar = "the statistics of single clients' features"

    samples: int
    epochs: int
    batch_size: int
    lr: float
    momentum: float

    def __post_init__(self) -> None:
        for name in ("samples", "epochs", "batch_size"):
            if getattr(self, name) < 1:
                refuse(self, name, "must be at least 1")
        check_sgd(self, self.lr, self.momentum)

    def problems(self, experiment: "Experiment") -> Iterator[ConfigError]:
        yield from super().problems(experiment)
        yield from self.of_classifier(experiment, "retrains the classifier")

    def check_model(
        self, experiment: "Experiment", network: "nn.Module", dataset: "ImageDataset"
    ) -> None:
        classes, features = shape_of(network)
        needed = NUMBER_BYTES * classes * features**2 / MEGABYTE
        most = experiment.federation.message_megabytes
        if needed > most:
            allowed = (
                f"needs {needed:,.0f} MB for a client's covariances ({classes} classes, {features} "
                f"features), and federation.message_megabytes is {most:g}; raise it to at most "
                "2000, lower model.features, or add after=none"
            )
            raise ConfigError("after", "ccvr", allowed)

    def check_sites(self, sites: Sequence["NodeInfo"]) -> None:
        from server_app.rounds.errors import RunFailedError  # noqa: PLC0415

        if sites and not any(site.statistics for site in sites):
            raise RunFailedError(NOBODY)

    def apply(self, context: "RoundContext", models: Mapping[int, Tensors]) -> StageResult:
        from server_app.rounds.after.calibration.collecting import Collection  # noqa: PLC0415
        from server_app.rounds.after.calibration.retraining import (  # noqa: PLC0415
            Training,
            draw_features,
            retrain,
        )

        before, seed = context.model.weights, context.experiment.seed
        found = Collection(context, *shape_of(context.worker.model))
        found.collect()
        note_absent_classes(context, found.pooled.present)
        features, labels = draw_features(found.pooled, self.samples, seed)
        how = Training(self.epochs, self.batch_size, self.lr, self.momentum)
        weight, bias = retrain(before[WEIGHT], before.get(BIAS), features, labels, how, seed)
        new = {WEIGHT: weight} if bias is None else {WEIGHT: weight, BIAS: bias}
        facts = {
            "clients": len(found.clients),
            "missing": {str(client): reason for client, reason in sorted(found.missing.items())},
            "images": found.pooled.counts.tolist(),
        }
        return StageResult({**before, **new}, facts)


def note_absent_classes(context: "RoundContext", present: Sequence[int]) -> None:
    """Record the names of the classes without statistics of any client."""
    classes = context.worker.data.dataset.classes
    absent = [name for label, name in enumerate(classes) if label not in present]
    if absent:
        text = f"after=ccvr: no statistics of the classes {', '.join(absent)}; they keep their rows"
        context.note("", text)


def shape_of(network: "nn.Module") -> tuple[int, int]:
    """Return the numbers of classes and of features: the shape of the classifier's weight."""
    classes, features = network.state_dict()[WEIGHT].shape
    return classes, features
