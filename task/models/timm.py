"""A network of timm (PyTorch Image Models), by its name there, with a new classifier.

Source: Wightman, https://github.com/huggingface/pytorch-image-models, which the extra ``timm``
installs. The weights are drawn from the seed; ``model.weights`` reads a file with timm's names, or
downloads it.
"""

import importlib
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from typing import Any

from torch import nn

from task.errors import ConfigError, refuse
from task.given_weights import KEY, PRETRAINED
from task.models.base import OwnInput, Published, Scaling
from task.models.layers.backbone import BackboneSettings

HUB_FILES = ("model.safetensors", "pytorch_model.bin")
MISSING = "needs timm: uv sync --extra timm, or pip install timm"


@dataclass
class TimmSettings(BackboneSettings):
    """Settings of a network of timm.

    Attributes:
        architecture: its name, one of ``timm.list_models()``; a tag behind it, as in
            ``resnet18.a1_in1k``, selects one of several published weights.
    """

    architecture: str = field(kw_only=True)

    def __post_init__(self) -> None:
        # Only a registered name: timm loads others from the network or from a file.
        if not self._library.is_model(self.architecture):
            within = self._library.list_models(f"*{self.architecture}*")[:5]
            close = get_close_matches(self.architecture, self._library.list_models())
            near = ", ".join(within or close)
            refuse(self, "architecture", f"is no network of timm{near and f'; some are {near}'}")
        name, _, tag = self.architecture.partition(".")
        if tag:
            every = self._library.list_models(f"{name}.*", include_tags=True)
            if self.architecture not in every:
                allowed = f"has an unknown tag; choose one of {', '.join(every) or name}"
                refuse(self, "architecture", allowed)
        super().__post_init__()

    @cached_property
    def _library(self) -> Any:
        try:
            return importlib.import_module("timm")
        except ModuleNotFoundError:
            raise ConfigError("model", "timm", MISSING) from None

    def encoder(self) -> nn.Module:
        sized = {"img_size": self.image_size} if self._fixed_size else {}
        found: nn.Module = self._library.create_model(
            self.architecture, pretrained=False, num_classes=0, **sized
        )
        return found

    @property
    def _fixed_size(self) -> bool:
        """Whether the network is built for one size of images, as transformers are."""
        return bool(self._own.fixed_input_size)

    def own_scaling(self) -> Scaling:
        return tuple(self._own.mean), tuple(self._own.std)

    def own_input(self) -> OwnInput:
        return OwnInput(self._own.input_size[-1], self._own.interpolation)

    def published(self) -> Published:
        own = self._own
        if own.hf_hub_id:
            files = (own.hf_hub_filename,) if own.hf_hub_filename else HUB_FILES
            return Published(own.hf_hub_id, files, own.hf_hub_id)
        if own.url:
            return Published(f"timm/{own.architecture}.{own.tag}", (own.url,))
        raise ConfigError(KEY, PRETRAINED, f"timm publishes no weights of {self.architecture}")

    @property
    def _own(self) -> Any:
        """What timm says about the network's weights."""
        return self._library.get_pretrained_cfg(self.architecture)
