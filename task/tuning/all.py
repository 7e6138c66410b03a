"""The whole network is trained."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from task.tuning.base import Tuning


@dataclass
class All(Tuning):
    """Every parameter."""

    whole: ClassVar[bool] = True

    def trained(self, model: nn.Module) -> Collection[str]:
        return [name for name, _ in model.named_parameters()]
