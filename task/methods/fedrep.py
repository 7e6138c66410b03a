"""FedRep: each client keeps its classifier, and trains it before the layers that are shared.

Loss: cross-entropy.
Paper: Collins et al., "Exploiting Shared Representations for Personalized Federated Learning",
ICML 2021. Release: github.com/lgcollins/FedRep, main_fedrep.py and models/Update.py.
Hooks: ``personal``, ``frozen``. Client state: the classifier. Extra upload: none; the classifier is
not sent. Extra compute: none; an epoch of the classifier needs no gradients of the other layers.

The last ``body_epochs`` of a client's local epochs train the shared layers with the classifier
fixed. The epochs before train the classifier with the shared layers fixed. The release has ten
epochs of the classifier and one of the other layers: ``local_epochs=11``.

Clients have different models. So a run has no test accuracy of one model: each client's own model
is scored on the images that the client holds out.

Our choices:

* A fixed layer has no gradient, so momentum and weight decay do not move it. In the release one
  optimiser has both parts, and momentum of the classifier's steps moves it on while it is fixed.
* Batch norm updates its statistics in all epochs, as in the release.
* The release trains all clients' classifiers once more after the last round. Here a client is
  scored with the classifier of its last round.

A client that has never trained has no classifier of its own, and is not scored.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from task.errors import refuse
from task.methods.base import Method
from task.methods.fedper import classifier_entries
from task.models.base import ModelSettings
from task.optim.parameters import CLASSIFIER, trained_parameters


@dataclass
class FedRep(Method):
    """Cross-entropy with a classifier that stays with the client and is trained first.

    Attributes:
        body_epochs: how many of the local epochs, the last ones, train the shared layers; at least
            1, and below ``local_epochs``.
    """

    trains_features: ClassVar = True
    sets_classifier: ClassVar = True
    varies_network: ClassVar = True
    replayable: ClassVar = True
    multilabel: ClassVar = True

    body_epochs: int

    def __post_init__(self) -> None:
        if self.body_epochs < 1:
            refuse(self, "body_epochs", "must be at least 1")

    def problem_with(self, network: ModelSettings, name: str, epochs: int) -> str:
        if epochs <= self.body_epochs:
            return (
                f"trains the classifier in the local epochs before the last {self.body_epochs}, "
                f"and local_epochs={epochs} leaves none; add local_epochs={self.body_epochs + 1}"
            )
        return super().problem_with(network, name, epochs)

    def personal(self, model: nn.Module) -> Collection[str]:
        return classifier_entries(model)

    def frozen(self, model: nn.Module, epoch: int, epochs: int) -> Collection[nn.Parameter]:
        body = epoch >= epochs - self.body_epochs
        return [
            value
            for name, value in trained_parameters(model).items()
            if name.startswith(CLASSIFIER) == body
        ]
