"""Freeze: an orthogonal classifier that nobody trains; the encoder fits it.

Paper: FedBABU (Oh, Kim, Yun, ICLR 2022) without its personalisation, as FedUV's and UniVarFL's
baseline *Freeze*. Hooks: ``build``. State kept, extra upload: none. Extra compute: none, less the
classifier's gradient.

Where we decide: the bias is 0 and frozen too, since it is part of the classifier. With more classes
than features the columns are orthogonal instead of the rows.
"""

from dataclasses import dataclass

import torch
from torch import nn

from task.methods.base import Method


def orthogonal_classifier(classifier: nn.Linear, generator: torch.Generator) -> None:
    """Draw orthonormal class vectors, and freeze them."""
    # Drawn on the CPU, where every device's run finds the same numbers.
    nn.init.orthogonal_(classifier.weight, generator=generator)
    nn.init.zeros_(classifier.bias)
    classifier.requires_grad_(False)


@dataclass
class Freeze(Method):
    """Cross-entropy, with the classifier frozen as it was drawn."""

    def build(self, model: nn.Module, generator: torch.Generator) -> nn.Module:
        classifier = model.classifier
        assert isinstance(classifier, nn.Linear)
        orthogonal_classifier(classifier, generator)
        return model
