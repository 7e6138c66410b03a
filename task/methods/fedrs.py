"""FedRS: the logits of classes that a client does not have are scaled down.

Loss: cross-entropy of s_c * f_c, with s_c = 1 for the client's classes and alpha for the others.
Paper: Li, Zhan, "FedRS: Federated Learning with Restricted Softmax for Label Distribution Non-IID
Data", KDD 2021. We have not read it: the equation is that of the authors' release,
github.com/lxcnju/FedRepo (algorithms/fedrs.py), and of github.com/bytedance/FedDecorr.
Hooks: ``start``, ``logits``. Client state: none. Extra upload: none. Extra compute: none.

Where the authors' release differs from the paper: its s_c is alpha + (1 - alpha) * n_c / max(n),
where n_c counts the client's images of class c (``scales: release``). Its classifier has no bias.

Our choices:

* Networks here have a bias, and the whole logit is scaled, as in bytedance's release.
* Evaluation uses the logits as they are.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor, nn

from task.errors import refuse
from task.methods.base import LocalRound, Method


def by_presence(counts: Tensor, missing: float) -> Tensor:
    """Return 1 for each class with images and `missing` for the others, [D] float32."""
    return (counts > 0).float() * (1 - missing) + missing


def by_count(counts: Tensor, missing: float) -> Tensor:
    """Return ``missing + (1 - missing) * n_c / max(n)``, [D] float32.

    Args:
        counts: n_c, [D], not all 0.
        missing: the scale of a class without images.
    """
    return counts.float() / counts.max() * (1 - missing) + missing


SCALES = {"paper": by_presence, "release": by_count}


@dataclass
class FedRS(Method):
    """Cross-entropy of the scaled logits.

    Attributes:
        missing_scale: alpha, from 0 to 1, the scale of a class that the client does not have; 1
            gives FedAvg.
        scales: ``paper``, 1 for every class that the client has; or ``release``, in proportion to
            its number of images.
    """

    replayable: ClassVar = True

    missing_scale: float
    scales: Literal["paper", "release"]

    def __post_init__(self) -> None:
        if not 0 <= self.missing_scale <= 1:
            refuse(self, "missing_scale", "must be from 0 to 1")

    def start(self, model: nn.Module, this: LocalRound) -> None:
        self._scales = SCALES[self.scales](this.counts, self.missing_scale)

    def logits(self, logits: Tensor) -> Tensor:
        return logits * self._scales
