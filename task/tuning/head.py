"""The projector and the classifier are trained, on the features of a frozen network."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from task.tuning.base import Tuning, head_of


@dataclass
class Head(Tuning):
    """Projector and classifier."""

    head_alone: ClassVar[bool] = True
    trains_norm: ClassVar[bool] = False

    def trained(self, model: nn.Module) -> Collection[str]:
        return head_of(model)
