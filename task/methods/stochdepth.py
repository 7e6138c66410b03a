"""StochDepth: leave residual blocks out at random, the later the likelier.

Paper: Huang et al., "Deep Networks with Stochastic Depth", ECCV 2016, as FedAlign's section 3 runs
it on every client. Hooks: ``build``, ``start``, ``batch``, ``finish``. State kept, extra upload:
none. Extra compute: less, by the blocks that are left out.

Where we decide: a block that stays is scaled by 1 / its keep rate while training, as
`torchvision.ops.StochasticDepth` does, instead of by its keep rate when scored. The expectation is
the same, and the model that leaves the federation is an ordinary one.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from task.errors import refuse
from task.methods.base import LocalRound, Method, Outcome
from task.models.layers.residual import ResidualNet


def keep_rates(blocks: int, last: float) -> list[float]:
    """The linear decay rule: block l of L is kept with rate ``1 - l / L * (1 - last)``."""
    return [1 - block / blocks * (1 - last) for block in range(1, blocks + 1)]


@dataclass
class StochDepth(Method):
    """Cross-entropy of a network whose blocks are dropped anew for each batch.

    Attributes:
        keep_rate: of the last block; 1 is FedAvg.
    """

    residual: ClassVar = True
    varies_network: ClassVar = True
    varies_cost: ClassVar = True

    keep_rate: float

    def __post_init__(self) -> None:
        if not 0 < self.keep_rate <= 1:
            refuse(self, "keep_rate", "must be above 0 and at most 1")

    def build(self, model: nn.Module, generator: torch.Generator) -> nn.Module:
        assert isinstance(model, ResidualNet)
        self._blocks = model.blocks()
        self._rates = keep_rates(len(self._blocks), self.keep_rate)
        return model

    def start(self, model: nn.Module, this: LocalRound) -> None:
        self._generator = this.generator

    def batch(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        draws = torch.rand(len(self._blocks), generator=self._generator).tolist()
        for block, rate, draw in zip(self._blocks, self._rates, draws, strict=True):
            block.branch = 1 / rate if draw < rate else 0.0
        return x, y

    def finish(self, model: nn.Module) -> Outcome:
        for block in self._blocks:
            block.branch = 1.0
        return Outcome()
