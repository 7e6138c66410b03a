"""The head, and the last stage of the feature extractor, are trained.

A stage is a module with layers inside it whose name is ``layer4``, ``stage4``, ``s4``, ``level5``,
``block4`` or ``denseblock4``, or a place in a sequence named ``stages``, ``blocks``, ``layers`` or
``features``. The last one is trained, and all layers after it: the last stage of a residual
network, the last block of a transformer.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from torch import nn

from task.errors import ConfigError
from task.models.base import Network
from task.tuning.base import HEAD, Tuning, head_of

STAGE = re.compile(
    r"(.*\.)?((layer|stage|s|level|block|denseblock)\d+|(stages|dense_stages|blocks|layers)\.\w+)"
)
FEATURES = re.compile(r"(.*\.)?features\.\d+")  # a stage if it is a plain sequence of blocks

MOST_NAMED = 5  # in a message


@dataclass
class LastStage(Tuning):
    """Head and last stage.

    Attributes:
        stage: the name of the module where the trained part begins, such as ``encoder.layer4``;
            None for the last stage.
    """

    stage: str | None = None

    def trained(self, model: nn.Module) -> Collection[str]:
        every = [name for name, _ in model.named_parameters()]
        within = self._first(model) + "."
        first = next(place for place, name in enumerate(every) if name.startswith(within))
        return [*every[first:], *head_of(model)]

    def _first(self, model: nn.Module) -> str:
        """Return the name of the module where the trained part begins."""
        own = model.last_stage if isinstance(model, Network) else ""
        possible = [name for name, layer in layers_before_head(model)]
        if self.stage is None:
            if found := own or "".join(list(stages(model))[-1:]):
                return found
            allowed = "finds no stage in this network"
        elif self.stage in possible:
            return self.stage
        else:
            allowed = "this network has no such module with weights"
        near = ", ".join([name for name in possible if name.count(".") < 3][-MOST_NAMED:])
        cure = f"tune.stage=NAME names the module where training begins, such as {near}"
        whole = f"{allowed}; {cure}" if near else f"{allowed}; choose tune=all"
        if self.stage is None:
            raise ConfigError("tune", "last_stage", whole)
        raise ConfigError("tune.stage", self.stage, whole)


def layers_before_head(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Yield the name of each module with parameters before the head, and the module."""
    for name, layer in model.named_modules():
        if name and not f"{name}.".startswith(HEAD) and any(True for _ in layer.parameters()):
            yield name, layer


def stages(model: nn.Module) -> Iterator[str]:
    """Yield the names of the stages of a network, without those inside others."""
    outer = "."
    for name, layer in layers_before_head(model):
        named = STAGE.fullmatch(name) or (FEATURES.fullmatch(name) and type(layer) is nn.Sequential)
        if named and any(True for _ in layer.children()) and not name.startswith(outer):
            outer = f"{name}."
            yield name
