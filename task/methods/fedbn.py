"""FedBN: each client keeps its batch normalisation; all other layers are shared.

Loss: cross-entropy.
Paper: Li et al., "FedBN: Federated Learning on Non-IID Features via Local Batch Normalization",
ICLR 2021. Release: github.com/med-air/FedBN, federated/fed_digits.py.
Hooks: ``personal``. Client state: weights, biases and statistics of the batch-norm layers.
Extra upload: none; what stays is not sent. Extra compute: none.

Clients have different models. So a run has no test accuracy of one model: each client's own model
is scored on the images that the client holds out.

Where we differ from the release:

* The release averages the shared layers with equal weights. Here ``strategy.weighting`` decides,
  and its default is the number of images; add ``strategy.weighting=uniform`` for equal weights.
* The release tells batch norm by its name. Here every batch-norm layer of the network counts, also
  in the projector.

Our choice: batch norm's statistics come from the client's last local steps, before the other layers
were averaged. They may not fit the averaged layers: after few steps, or large ones, this can cost
most of the accuracy (docs/results/clients.md). With ``statistics: measured``, a client measures
them again on its training images, with the averaged layers, before scoring. Training is the same.

A client that has never trained has no batch norm of its own, and is not scored.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from task.methods.base import Method
from task.models.base import ModelSettings


@dataclass
class FedBN(Method):
    """Cross-entropy with batch norm that stays with the client.

    Attributes:
        statistics: the batch-norm statistics used for scoring: ``trained``, from local training as
            in the release, or ``measured`` again before scoring.
    """

    replayable: ClassVar = True
    multilabel: ClassVar = True

    statistics: Literal["trained", "measured"]

    def problem_with(self, network: ModelSettings, name: str, epochs: int) -> str:
        if network.norm != "batch":
            cure = "add model.norm=batch" if network.normalised else "add model=cnn"
            problem = f"keeps batch norm with each client, and model={name} has none"
            return f"{problem}; {cure}, or choose method=fedper"
        return super().problem_with(network, name, epochs)

    def measures_statistics(self) -> bool:
        return self.statistics == "measured"

    def personal(self, model: nn.Module) -> Collection[str]:
        return {
            f"{name}.{entry}"
            for name, layer in model.named_modules()
            if isinstance(layer, _BatchNorm)
            for entry in layer.state_dict()
        }
