"""GradAug: narrower sub-networks learn the full network's outputs on rescaled images.

Loss: cross-entropy + mu * sum of KL(full network || sub-network) (FedAlign, Eq. 2).
Paper: Yang, Zhu, Chen, "GradAug: A New Regularization Method for Deep Neural Networks", NeurIPS
2020, as FedAlign, Eq. 2, runs it on every client.
Hooks: ``start``, ``loss``. Client state: none. Extra upload: none. Needs a residual network.
Extra compute: one forward and backward pass per sub-network.

Our choices where FedAlign leaves something open:

* The full network's output is a target and gets no gradient.
* With several sub-networks, one always has the least width, as FedAlign's Table 5 shows.
* Images are rescaled by 32/32, 28/32, 24/32 or 20/32. With these sizes the number of operations is
  closest to FedAlign's Table 5.
* Images are resized without ``align_corners``, so that they cover the same area at every size, and
  channels are rounded down to the width that was drawn. FedAlign's program aligns the corners, and
  keeps multiples of 8 channels.
* The sub-networks normalise by their own batch and do not change the model's statistics.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F  # noqa: N812  (PyTorch's own abbreviation)
from torch import Tensor, nn

from task.errors import refuse
from task.methods.base import LocalRound, Method, Term
from task.models.base import Output
from task.models.layers.residual import ResidualNet
from task.training.losses import wide

SCALES = (1.0, 0.875, 0.75, 0.625)


def distillation(student: Tensor, teacher: Tensor) -> Tensor:
    """Mean over the batch of KL(teacher || student), a scalar.

    Args:
        student: logits [n, D].
        teacher: logits [n, D]; get no gradient.
    """
    target = torch.softmax(wide(teacher.detach()), dim=1)
    return F.kl_div(F.log_softmax(wide(student), dim=1), target, reduction="batchmean")


def rescale(x: Tensor, scale: float) -> Tensor:
    """Return images [n, C, H, W] resized by `scale`, by bilinear interpolation."""
    if scale == 1:
        return x
    return F.interpolate(x, scale_factor=scale, mode="bilinear", align_corners=False)


@dataclass
class GradAug(Method):
    """Cross-entropy + mu * the sum of the sub-networks' distillation losses.

    Attributes:
        distillation_weight: mu, at least 0; 0 gives FedAvg.
        subnetworks: n, the number of sub-networks per batch, at least 1.
        least_width: the smallest width of a sub-network, as a share of the channels, in (0, 1].
    """

    terms: ClassVar = ("l_kd",)
    residual: ClassVar = True
    narrows: ClassVar = True
    varies_cost: ClassVar = True

    distillation_weight: float
    subnetworks: int
    least_width: float

    def __post_init__(self) -> None:
        if self.distillation_weight < 0:
            refuse(self, "distillation_weight", "must be at least 0")
        if self.subnetworks < 1:
            refuse(self, "subnetworks", "must be at least 1")
        if not 0 < self.least_width <= 1:
            refuse(self, "least_width", "must be above 0 and at most 1")

    def start(self, model: nn.Module, this: LocalRound) -> None:
        assert isinstance(model, ResidualNet)
        self._model = model
        self._generator = this.generator

    def loss(self, out: Output, x: Tensor, y: Tensor) -> dict[str, Term]:
        if not self.distillation_weight:
            return {}
        parts = []
        for number in range(self.subnetworks):
            draw, place = torch.rand(2, generator=self._generator).tolist()
            narrowest = number == 0 and self.subnetworks > 1
            width = self.least_width + (0 if narrowest else draw * (1 - self.least_width))
            small = rescale(x, SCALES[int(place * len(SCALES))])
            parts.append(distillation(self._model.narrower(small, width).logits, out.logits))
        return {"l_kd": Term(torch.stack(parts).sum(), self.distillation_weight)}
