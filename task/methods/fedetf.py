"""FedETF: the classifier is a fixed frame whose class vectors have equal angles.

Loss: cross-entropy of s * z^T V + log n_c. z is the normalised projection of the features, V the
frame, s a learnt number, n_c the client's images of class c (1 where it has none).
Paper: Li et al., "No Fear of Classifier Biases: Neural Collapse Inspired Federated Learning with
Synthetic and Fixed Classifier", ICCV 2023. We have not read it: the equations are from the
authors' release, github.com/ZexiLee/ICCV-2023-FedETF.
Hooks: ``build``, ``start``, ``logits``. Client state: none. Extra upload: the projection instead of
the classifier. Extra compute: one linear layer.

V = sqrt(D / (D - 1)) * P * (I - 1 1^T / D), with P of D orthonormal columns: D vectors of norm 1
with cosines of -1 / (D - 1).

Our choices:

* The frame is the same in every run and on every machine, so it is neither sent nor saved, and
  weights of one run fit another.
* s starts at 10 and the projection is 64 wide, as in the release's CNN and VGG; with more classes
  the projection is as wide as there are classes. The release's ResNets begin with s = 1.
* Evaluation uses s * z^T V alone. The release's fine-tuning for each client is not part of this.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F  # noqa: N812  (PyTorch's own abbreviation)
from torch import Tensor, nn

from task.errors import refuse
from task.methods.base import LocalRound, Method

WIDTH = 64
FRAME_SEED = 0
SMALLEST_NORM = 1e-12


def frame_from(columns: Tensor) -> Tensor:
    """Return V for orthonormal columns P, [d, D]."""
    classes = columns.shape[1]
    centred = columns - columns.mean(dim=1, keepdim=True)
    return math.sqrt(classes / (classes - 1)) * centred


def frame_logits(projected: Tensor, frame: Tensor, scale: Tensor) -> Tensor:
    """Return ``s * z^T V``, [n, D], for projected features [n, d]."""
    return scale * (F.normalize(projected, dim=1, eps=SMALLEST_NORM) @ frame)


class FrameClassifier(nn.Module):
    """A projection, and the frame after it.

    Args:
        inputs: the number of features.
        classes: D, at least 2.
        width: d, at least D.
        scale: the first value of s.
        generator: for the projection, on the CPU.
    """

    frame: Tensor

    def __init__(
        self, inputs: int, classes: int, width: int, scale: float, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.out_features = classes
        self.projection = nn.Linear(inputs, width, device="meta").to_empty(device="cpu")
        bound = 1 / math.sqrt(inputs)  # that of PyTorch's linear layers
        nn.init.uniform_(self.projection.weight, -bound, bound, generator=generator)
        nn.init.uniform_(self.projection.bias, -bound, bound, generator=generator)
        self.scale = nn.Parameter(torch.full((1,), scale))
        fixed = torch.Generator().manual_seed(FRAME_SEED)
        draw = torch.rand(width, classes, generator=fixed, dtype=torch.float64)
        columns = torch.linalg.qr(draw).Q
        self.register_buffer("frame", frame_from(columns).float(), persistent=False)

    def forward(self, features: Tensor) -> Tensor:
        return frame_logits(self.projection(features), self.frame, self.scale)


@dataclass
class FedETF(Method):
    """Balanced cross-entropy with a fixed frame as the classifier.

    Attributes:
        frame_width: of the projection, at least the number of classes; None means 64, or the number
            of classes if that is larger.
        first_scale: the first value of s, above 0.
    """

    trains_features: ClassVar = True
    sets_classifier: ClassVar = True
    replayable: ClassVar = True

    frame_width: int | None
    first_scale: float

    def __post_init__(self) -> None:
        if self.first_scale <= 0:
            refuse(self, "first_scale", "must be above 0")

    def build(self, model: nn.Module, generator: torch.Generator) -> nn.Module:
        old = model.classifier
        assert isinstance(old, nn.Linear)
        classes, width = old.out_features, self._width(old.out_features)
        if not 2 <= classes <= width:
            refuse(self, "frame_width", f"must be at least the number of classes, {classes}, and 2")
        model.classifier = FrameClassifier(
            old.in_features, classes, width, self.first_scale, generator
        )
        return model

    def added_numbers(self, model: nn.Module) -> int:
        old = model.classifier
        assert isinstance(old, nn.Linear)
        return self._width(old.out_features) * (old.in_features + 1 + old.out_features)

    def _width(self, classes: int) -> int:
        return max(WIDTH, classes) if self.frame_width is None else self.frame_width

    def start(self, model: nn.Module, this: LocalRound) -> None:
        self._shift = this.counts.clamp(min=1).log()

    def logits(self, logits: Tensor) -> Tensor:
        return logits + self._shift
