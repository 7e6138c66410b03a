"""GradAug: narrower sub-networks learn, on rescaled images, what the full network answers.

Paper: Yang, Zhu, Chen, "GradAug: A New Regularization Method for Deep Neural Networks", NeurIPS
2020, as FedAlign's Eq. 2 runs it on every client. Hooks: ``start``, ``loss``. State kept, extra
upload: none. Extra compute: a forward and backward pass of each sub-network.

Where we decide what FedAlign leaves open: the full network's answer is a target without gradient;
of several sub-networks one always has the least width (its Table 5 shows that it did); images are
rescaled to 32, 28, 24 or 20 of every 32 pixels, which comes closest to Table 5's compute; the
sub-networks normalise by their own batch and leave the model's statistics alone.
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

SCALES = (1.0, 0.875, 0.75, 0.625)


def distillation(student: Tensor, teacher: Tensor) -> Tensor:
    """The mean KL divergence of the students' answers from the teachers', logits [n, D]."""
    target = torch.softmax(teacher.detach(), dim=1)
    return F.kl_div(F.log_softmax(student, dim=1), target, reduction="batchmean")


def rescale(x: Tensor, scale: float) -> Tensor:
    """Images [n, C, H, W] at another resolution."""
    if scale == 1:
        return x
    return F.interpolate(x, scale_factor=scale, mode="bilinear", align_corners=False)


@dataclass
class GradAug(Method):
    """Cross-entropy + mu * the sub-networks' summed distillation.

    Attributes:
        distillation_weight: mu; 0 is FedAvg.
        subnetworks: n, how many.
        least_width: of the sub-networks, as a share of the channels.
    """

    terms: ClassVar = ("l_kd",)
    residual: ClassVar = True
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
