"""The head, and scale and shift of each normalisation layer, are trained.

Source: Frankle, Schwab and Morcos, "Training BatchNorm and Only BatchNorm", ICLR 2021. There the
statistics of batch norm are those of the batches; here they stay as they are.
"""

from collections.abc import Collection
from dataclasses import dataclass

from torch import nn

from task.models.layers.norm import NORMALISATIONS
from task.tuning.base import Tuning, head_of


@dataclass
class NormLayers(Tuning):
    """Head and normalisation layers."""

    def trained(self, model: nn.Module) -> Collection[str]:
        layers = [
            f"{name}.{entry}"
            for name, layer in model.named_modules()
            if isinstance(layer, NORMALISATIONS)
            for entry, _ in layer.named_parameters(recurse=False)
        ]
        return [*layers, *head_of(model)]
