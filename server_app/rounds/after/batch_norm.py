"""Batch norm measured again: its statistics become those of all clients' images.

The rounds average the clients' running statistics. The average is wrong in two ways: each client
measured under weights of its own, and the variance between the clients' means is missing.

Stage: for each layer of batch norm, in the order of the forward pass, each client sends the mean
and the variance of the layer's inputs, by channel, under the final weights in eval mode. The server
combines them into the mean and variance of all inputs in one place, and stores them as the layer's
statistics. The next layer is measured with them. Weights do not change.
Source: a model whose weights are a mean needs new statistics, as in Izmailov et al., "Averaging
Weights Leads to Wider Optima and Better Generalization", UAI 2018, section 3.2, and in PyTorch's
``torch.optim.swa_utils.update_bn``. These pass over all data in training mode, which needs the data
in one place.
Upload: two float64 numbers for each channel, one exchange for each layer. Client state: none.

Our choices:

* Images are the training images, without augmentation. The variance is that of all inputs (divided
  by their number), while PyTorch's running variance is unbiased.
* A client counts by its number of training images, whatever ``strategy.weighting`` is.
* A client that fails is left out of this layer and of all later ones; events.csv names it.
* A run that is resumed keeps the layers that it has measured, because a site describes a layer
  under one set of statistics only. A client that failed before may answer for the others.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from server_app.rounds.after.base import AfterTraining, Outcome
from task.errors import ConfigError
from task.tensors import Tensors

if TYPE_CHECKING:
    from torch import nn

    from server_app.config.experiment import Experiment
    from server_app.rounds.context import RoundContext
    from task.data.dataset import ImageDataset


@dataclass
class BatchNorm(AfterTraining):
    """Measures the statistics of batch norm again."""

    reads: ClassVar = "batch norm's statistics of single clients"

    def check_model(
        self, experiment: "Experiment", network: "nn.Module", dataset: "ImageDataset"
    ) -> None:
        from task.models.layers.norm import batch_norm_layers  # noqa: PLC0415

        if not batch_norm_layers(network):
            allowed = "measures batch norm again, and the model has none; add after=none"
            raise ConfigError("after", "batch_norm", allowed)

    def apply(self, context: "RoundContext", models: Mapping[int, Tensors]) -> Outcome:
        from server_app.rounds.after.normalisation.measuring import Measuring  # noqa: PLC0415

        measuring = Measuring(context)
        weights = measuring.measure()
        return Outcome(weights, measuring.facts())
