"""Freeze: the classifier is drawn orthogonal and never trained.

Loss: cross-entropy.
Paper: Oh, Kim, Yun, "FedBABU: Toward Enhanced Representation for Federated Image Classification",
ICLR 2022, without its personalisation; the baseline *Freeze* of FedUV and UniVarFL.
Hooks: ``build``. Client state: none. Extra upload: none.
Extra compute: none; the classifier's gradient is saved.

Our choices:

* The classifier is orthogonal, as FedUV's text says; its program keeps PyTorch's default start.
* With ``model.weights=FILE`` the file's classifier takes its place if the shapes agree.
* The bias is 0 and frozen too, since it is part of the classifier.
* With more classes than features, the columns of the weight are orthogonal instead of the rows.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn

from task.methods.base import Method


def orthogonal_classifier(classifier: nn.Linear, generator: torch.Generator) -> None:
    """Draw the weight with orthonormal rows, set the bias to 0, and freeze both, in place.

    Args:
        classifier: weight [D, d], bias [D].
        generator: on the CPU.
    """
    # Drawn on the CPU, so that every device gets the same numbers.
    nn.init.orthogonal_(classifier.weight, generator=generator)
    nn.init.zeros_(classifier.bias)
    classifier.requires_grad_(False)


@dataclass
class Freeze(Method):
    """Cross-entropy with a frozen orthogonal classifier; no settings."""

    trains_features: ClassVar = True
    separable: ClassVar = True
    sets_classifier: ClassVar = True
    replayable: ClassVar = True

    def build(self, model: nn.Module, generator: torch.Generator) -> nn.Module:
        classifier = model.classifier
        assert isinstance(classifier, nn.Linear)
        orthogonal_classifier(classifier, generator)
        return model
