"""What a local method may do, and when. Every hook has a neutral default."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from task.models.base import Output


class Term(NamedTuple):
    """One term of a local objective: its value, a scalar tensor, and its coefficient."""

    value: Tensor
    weight: float


class LocalRound(NamedTuple):
    """The client and round that local training is about to begin."""

    round: int
    client: int
    generator: torch.Generator


@dataclass
class Method:
    """A local method: plain cross-entropy, until a hook is overridden.

    A worker calls ``build`` once. Then `task.training` calls, for each client, ``start``; for each
    batch, ``batch``, the forward pass, ``loss``, the backward pass, ``gradients`` and the step; and
    at last ``finish``. A subclass is a dataclass: its fields are the settings of its YAML file.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid", "allow_inf_nan": False}

    def build(self, model: nn.Module) -> nn.Module:
        """Change the freshly made model, once."""
        return model

    def start(self, model: nn.Module, this: LocalRound) -> None:
        """Prepare for one client's round; `model` holds the global weights."""

    def batch(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Change a batch before the forward pass: x [n, C, H, W] float, y [n] classes."""
        return x, y

    def loss(self, out: Output, x: Tensor, y: Tensor) -> dict[str, Term]:
        """The terms that join the cross-entropy, by the name they are recorded under."""
        return {}

    def gradients(self, model: nn.Module) -> None:
        """Change the gradients between the backward pass and the step."""

    def finish(self, model: nn.Module) -> None:
        """Look at the trained model after the client's last step."""
