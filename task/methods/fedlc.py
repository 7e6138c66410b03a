"""FedLC: logits are lowered by class before the cross-entropy, rare classes most.

Loss: cross-entropy of f_c - tau * n_c^(-1/4), where n_c counts the client's images of class c.
Paper: Zhang et al., "Federated Learning with Label Distribution Skew via Logits Calibration", ICML
2022. We have not read it: the equation is that of two later releases,
github.com/bytedance/FedDecorr (approach/fedlogitcal.py) and github.com/KarhouTam/FL-bench.
Hooks: ``start``, ``logits``. Client state: none. Extra upload: none. Extra compute: none.

Where the releases differ from the paper: its loss leaves the true class out of the denominator, so
the loss has no lower bound. Both releases use the cross-entropy of the lowered logits, as we do.

Our choices:

* A class that the client does not have would be lowered without limit. Its logit becomes the most
  negative number instead, so its probability and gradient are 0; soft labels stay finite.
* tau is 1, as in FL-bench and in the comparison of FedWSQ; bytedance's release has 0.1.
* Evaluation uses the logits as they are.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from task.errors import refuse
from task.methods.base import LocalRound, Method


def lowered(logits: Tensor, counts: Tensor, tau: float) -> Tensor:
    """Return ``f_c - tau * n_c^(-1/4)``; a class without images gets the most negative number.

    Args:
        logits: f, [n, D].
        counts: n_c, [D], at least 0.
        tau: the strength, above 0.
    """
    shift = tau * counts.clamp(min=1).to(logits.dtype).pow(-0.25)
    return (logits - shift).masked_fill(counts == 0, torch.finfo(logits.dtype).min / 2)


@dataclass
class FedLC(Method):
    """Cross-entropy of the lowered logits.

    Attributes:
        calibration_weight: tau, at least 0; 0 gives FedAvg.
    """

    replayable: ClassVar = True

    calibration_weight: float

    def __post_init__(self) -> None:
        if self.calibration_weight < 0:
            refuse(self, "calibration_weight", "must be at least 0")

    def start(self, model: nn.Module, this: LocalRound) -> None:
        self._counts = this.counts

    def logits(self, logits: Tensor) -> Tensor:
        if not self.calibration_weight:
            return logits
        return lowered(logits, self._counts, self.calibration_weight)
