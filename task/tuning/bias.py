"""The head, and the bias of each layer, are trained.

Source: BitFit, Ben Zaken, Goldberg and Ravfogel, ACL 2022.
"""

from collections.abc import Collection
from dataclasses import dataclass

from torch import nn

from task.tuning.base import Tuning, head_of


@dataclass
class Bias(Tuning):
    """Head and biases."""

    def trained(self, model: nn.Module) -> Collection[str]:
        biases = [name for name, _ in model.named_parameters() if name.endswith("bias")]
        return [*biases, *head_of(model)]
