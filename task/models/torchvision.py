"""A network of torchvision, by its name there, with a new classifier.

Its weights are drawn from the seed; ``model.weights`` reads a file of torchvision's weights, or
downloads it.
"""

from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

import torchvision.models
from torch import nn

from task.errors import refuse
from task.models.base import OwnInput, Published, Scaling
from task.models.layers.backbone import BackboneSettings, without_last_linear


@dataclass
class TorchvisionSettings(BackboneSettings):
    """Settings of a network of torchvision that classifies images.

    Attributes:
        architecture: its name, one of ``torchvision.models.list_models(torchvision.models)``.
    """

    architecture: str = field(kw_only=True)

    def __post_init__(self) -> None:
        names = torchvision.models.list_models(torchvision.models)
        if self.architecture not in names:
            within = [name for name in names if self.architecture in name][:5]
            near = ", ".join(within or get_close_matches(self.architecture, names))
            allowed = f"is no classifier of torchvision{near and f'; some are {near}'}"
            refuse(self, "architecture", allowed)
        super().__post_init__()

    def encoder(self) -> nn.Module:
        return without_last_linear(torchvision.models.get_model(self.architecture), "")

    def own_scaling(self) -> Scaling | None:
        own = self._weights.transforms()
        return tuple(own.mean), tuple(own.std)

    def own_input(self) -> OwnInput:
        own = self._weights.transforms()
        return OwnInput(own.crop_size[0], own.interpolation.value)

    def published(self) -> Published:
        own = self._weights
        return Published(f"torchvision/{self.architecture}.{own.name}", (own.url,))

    @property
    def _weights(self) -> Any:
        """The weights that torchvision recommends."""
        return torchvision.models.get_model_weights(self.architecture).DEFAULT
