"""FedPer: each client keeps its classifier; all other layers are shared.

Loss: cross-entropy.
Paper: Arivazhagan et al., "Federated Learning with Personalization Layers", 2019, arXiv 1912.00818.
Hooks: ``personal``. Client state: the classifier. Extra upload: none; the classifier is not sent.
Extra compute: none.

Clients have different models. So a run has no test accuracy of one model: each client's own model
is scored on the images that the client holds out.

Our choices:

* The classifier is the network's last linear layer, weight and bias. The paper also keeps some
  layers before it.
* All clients start from the same classifier, which is drawn from the seed. The optimiser's momentum
  starts at 0 each round, as for all methods; ``optim.keep_momentum`` changes this.

A client that has never trained has no classifier of its own, and is not scored.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from task.methods.base import Method
from task.optim.parameters import CLASSIFIER


def classifier_entries(model: nn.Module) -> set[str]:
    """Return the names of the classifier's entries in the ``state_dict``."""
    return {name for name in model.state_dict() if name.startswith(CLASSIFIER)}


@dataclass
class FedPer(Method):
    """Cross-entropy with a classifier that stays with the client; no settings."""

    trains_features: ClassVar = True
    sets_classifier: ClassVar = True
    replayable: ClassVar = True
    multilabel: ClassVar = True

    def personal(self, model: nn.Module) -> Collection[str]:
        return classifier_entries(model)
