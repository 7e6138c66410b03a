"""Mixup: train on convex combinations of two images and of their labels.

Loss: cross-entropy of mixed images against mixed labels.
Paper: Zhang et al., "mixup: Beyond Empirical Risk Minimization", ICLR 2018, as FedAlign, section 3,
runs it on every client.
Hooks: ``start``, ``batch``. Client state: none. Extra upload: none.
Extra compute: one weighted sum of the batch with its permutation.

Our choices:

* One mixing coefficient per batch, as in the authors' release.
* At concentration 0 every coefficient is 0 or 1, so that nothing is mixed: FedAvg.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F  # noqa: N812  (PyTorch's own abbreviation)
from torch import Tensor, nn

from task.data.batches import without_waiting
from task.errors import refuse
from task.methods.base import LocalRound, Method

LEAST = 0.01


def mix(values: Tensor, partner: Tensor, share: float) -> Tensor:
    """Return ``share * v_i + (1 - share) * v_partner(i)`` for every row i.

    Args:
        values: v, [n, ...].
        partner: the row that each row is mixed with, [n] int64.
        share: the mixing coefficient, in [0, 1].
    """
    return share * values + (1 - share) * values[partner]


def beta_share(concentration: float, generator: torch.Generator) -> float:
    """Draw the mixing coefficient from Beta(concentration, concentration)."""
    seed = int(torch.randint(2**62, (), generator=generator))
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # the CPU's; `torch.manual_seed` seeds GPUs too
        return float(torch.distributions.Beta(concentration, concentration).sample())


@dataclass
class Mixup(Method):
    """Cross-entropy of mixed images against mixed labels.

    Attributes:
        mixing_concentration: g of Beta(g, g), from which the coefficient is drawn, at least 0.01,
            as smaller values underflow; 0 gives FedAvg.
    """

    mixes_labels: ClassVar = True

    mixing_concentration: float

    def __post_init__(self) -> None:
        if 0 < self.mixing_concentration < LEAST or self.mixing_concentration < 0:
            refuse(self, "mixing_concentration", f"must be at least {LEAST}, or 0 for FedAvg")

    def start(self, model: nn.Module, this: LocalRound) -> None:
        self._classes = len(this.counts)
        self._generator = this.generator

    def batch(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        if not self.mixing_concentration:
            return x, y
        share = beta_share(self.mixing_concentration, self._generator)
        partner = torch.randperm(len(x), generator=self._generator)
        partner = without_waiting(partner, x.device)
        targets = F.one_hot(y, self._classes).to(x.dtype) if y.dim() == 1 else y
        return mix(x, partner, share), mix(targets, partner, share)
