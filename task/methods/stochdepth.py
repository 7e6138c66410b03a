"""StochDepth: residual blocks are dropped at random, later blocks more often.

Loss: cross-entropy of a network whose blocks are dropped for each batch.
Paper: Huang et al., "Deep Networks with Stochastic Depth", ECCV 2016, as FedAlign, section 3, runs
it on every client.
Hooks: ``build``, ``start``, ``batch``, ``clean``. Client state: none. Extra upload: none. Needs a
residual network. Extra compute: none; the dropped blocks are saved.

Our choice: a kept block is scaled by 1 / its keep rate in training, as
`torchvision.ops.StochasticDepth` does, instead of by its keep rate in evaluation. The expectation
is the same, and the trained model is an ordinary network.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from task.errors import refuse
from task.methods.base import LocalRound, Method
from task.models.layers.residual import ResidualNet


def keep_rates(blocks: int, last: float) -> list[float]:
    """Return each block's keep rate by linear decay, ``1 - l / L * (1 - last)`` for l = 1 to L.

    Args:
        blocks: L, the number of blocks.
        last: the keep rate of the last block.
    """
    return [1 - block / blocks * (1 - last) for block in range(1, blocks + 1)]


@dataclass
class StochDepth(Method):
    """Cross-entropy of a network whose blocks are dropped at random for each batch.

    Attributes:
        keep_rate: the probability that the last block is kept, in (0, 1]; 1 gives FedAvg.
    """

    residual: ClassVar = True
    varies_network: ClassVar = True
    varies_cost: ClassVar = True
    multilabel: ClassVar = True

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

    def clean(self, model: nn.Module) -> None:
        for block in self._blocks:
            block.branch = 1.0
