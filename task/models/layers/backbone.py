"""Networks that others have written, with a classifier of ours: a backbone and one linear layer."""

from abc import abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from task.errors import ConfigError, refuse
from task.models.base import ModelSettings, Network, Output, ProjectorKind, Scaling, projector
from task.models.layers.norm import Norm, batch_norm_layers
from task.plain_text import one_line

COLOURS = 3  # channels of an image that a backbone takes
MOST_PIXELS = 1024  # of the height of an image, as for a data set
FORM = "it must map images [n, 3, H, W] to features [n, d]"


class BackboneNetwork(Network):
    """Maps images [n, C, H, W], C = 1 or 3, to `Output`, by a backbone that others have written.

    It also takes what the backbone returns for them, [n, w]. It knows neither the maps before
    pooling nor levels: `Output.maps` is None.

    Args:
        encoder: maps images [n, 3, H, W] to vectors.
        head: maps these to features [n, d].
        classifier: of the features.
    """

    def __init__(self, encoder: nn.Module, head: nn.Sequential, classifier: nn.Linear) -> None:
        super().__init__()
        self.encoder = encoder
        self.projector = head
        self.classifier = classifier

    @property
    def width(self) -> int:
        """w, the number of values that the backbone returns for an image."""
        first = self.projector[0] if len(self.projector) else self.classifier
        assert isinstance(first, nn.Linear)
        return first.in_features

    def forward(self, x: Tensor) -> Output:
        features = self.projector(x if x.ndim == 2 else encoded(self.encoder, x))
        return Output(self.classifier(features), features, None)


def encoded(encoder: nn.Module, x: Tensor) -> Tensor:
    """Return a backbone's features [n, d] of images; a grey image has three equal channels.

    Raises:
        ValueError: they have another form.
    """
    features = encoder(x.expand(-1, COLOURS, -1, -1) if x.shape[1] == 1 else x)
    if not isinstance(features, Tensor) or features.ndim != 2:
        found = getattr(features, "shape", type(features).__name__)
        found = list(found) if isinstance(found, torch.Size) else found
        raise ValueError(f"{FORM}, and returns {found}; flatten or pool its output")
    return features


@dataclass
class BackboneSettings(ModelSettings):
    """Settings of a network that others have written; its normalisation layers are its own.

    Attributes:
        features: the width of the projector, if there is one.
        image_size: height and width of the images, in pixels; ``data.image_size``.
        chosen_by: the setting that names the network.
        normalisation: how pixels in [0, 1] become the input: with the constants of the ``network``,
            or with those of the ``data`` (``data.normalisation``).
    """

    least_image_size: ClassVar[int] = 8
    has_levels: ClassVar[bool] = False
    takes_features: ClassVar[bool] = True
    draws: ClassVar[bool] = True
    chosen_by: ClassVar[str] = "architecture"

    image_size: int = field(kw_only=True)
    norm: Norm = field(default="batch", kw_only=True)
    projector: ProjectorKind = field(default="none", kw_only=True)
    normalisation: Literal["network", "data"] = field(default="network", kw_only=True)

    def __post_init__(self) -> None:
        if self.norm == "group":
            refuse(self, "norm", "must be batch or fixed: the network has layers of its own")
        if self.pan != "none":
            refuse(self, "pan", "must be none: the network has layers of its own")
        if self.image_size > MOST_PIXELS:
            refuse(self, "image_size", f"must be at most {MOST_PIXELS}")
        super().__post_init__()

    @abstractmethod
    def encoder(self) -> nn.Module:
        """Return a new backbone, which maps images [n, 3, H, W] to features [n, d]."""

    def _made(self) -> nn.Module:
        try:
            return self.encoder()
        except ConfigError:
            raise
        except Exception as error:  # of another package
            refuse(self, self.chosen_by, f"cannot be built: {one_line(str(error))}")

    @abstractmethod
    def own_scaling(self) -> Scaling | None:
        """Return the mean and deviation per colour of the images that the network was made for."""

    def scaling(self, channels: int) -> Scaling | None:
        own = self.own_scaling() if self.normalisation == "network" else None
        if own is None or channels == COLOURS:
            return own
        mean, std = (sum(values) / len(values) for values in own)
        return (mean,) * channels, (std,) * channels

    @cached_property
    def _has_batch_norm(self) -> bool:
        with torch.device("meta"):
            return bool(batch_norm_layers(self._made()))

    @property
    def keeps_statistics(self) -> bool:
        return self._has_batch_norm

    def build(self, channels: int, classes: int) -> BackboneNetwork:
        if channels not in (1, COLOURS):
            raise ConfigError("name", "", f"takes images of 1 or 3 channels, not {channels}")
        encoder, size = self._made(), self.image_size
        with torch.no_grad():
            try:
                inputs = encoded(encoder.eval(), torch.zeros(1, COLOURS, size, size))
            except Exception as error:
                reason = one_line(str(error))
                refuse(self, self.chosen_by, f"fails on images [1, 3, {size}, {size}]: {reason}")
        head = projector(inputs.shape[1], self.features, "batch", self.projector)
        width = self.features if len(head) else inputs.shape[1]
        return BackboneNetwork(encoder.train(), head, nn.Linear(width, classes))


def without_last_linear(network: nn.Module, name: str) -> nn.Module:
    """Return a network without a linear layer, whose input is returned in its place.

    Args:
        network: changed in place.
        name: that of the layer; empty for the last of all linear layers.

    Raises:
        ConfigError: there is no such layer.
    """
    linear = [key for key, layer in network.named_modules() if isinstance(layer, nn.Linear)]
    if not linear or (name and name not in linear):
        allowed = f"must name a linear layer of the network, such as {', '.join(linear[-3:])}"
        raise ConfigError("head", name, allowed if linear else "the network has no linear layer")
    path, _, last = (name or linear[-1]).rpartition(".")
    setattr(network.get_submodule(path), last, nn.Identity())
    return network
