"""Adam with decoupled weight decay, whose moments are replaced for each client.

Paper: Loshchilov, Hutter, "Decoupled Weight Decay Regularization", ICLR 2019, Algorithm 2.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import torch
from torch import Tensor
from torch.optim.adamw import adamw

from task.config import AdamW
from task.optim.base import MOMENTUM, SECOND_MOMENT, STEPS, LocalOptimizer


class LocalAdamW(LocalOptimizer[AdamW]):
    """The arithmetic of `torch.optim.AdamW`."""

    kept: ClassVar = (MOMENTUM, SECOND_MOMENT, STEPS)

    def move(
        self,
        parameters: list[Tensor],
        gradients: list[Tensor],
        state: Mapping[str, list[Tensor | None]],
        rate: float,
    ) -> Mapping[str, Sequence[Tensor | None]]:
        first, second = (
            [
                torch.zeros_like(parameter) if moment is None else moment
                for moment, parameter in zip(state[kind], parameters, strict=True)
            ]
            for kind in (MOMENTUM, SECOND_MOMENT)
        )
        steps = [
            gradient.new_zeros((), dtype=torch.float32) if number is None else number
            for number, gradient in zip(state[STEPS], gradients, strict=True)
        ]
        adamw(
            parameters,
            gradients,
            first,
            second,
            [],
            steps,
            foreach=False,
            fused=self._fused,
            amsgrad=False,
            beta1=self._settings.beta_1,
            beta2=self._settings.beta_2,
            lr=rate,
            weight_decay=self._settings.weight_decay,
            eps=self._settings.eps,
            maximize=False,
        )
        return {MOMENTUM: first, SECOND_MOMENT: second, STEPS: steps}
