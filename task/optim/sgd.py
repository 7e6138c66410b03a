"""Stochastic gradient descent whose momentum is replaced for each client."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import torch
from torch import Tensor
from torch.optim.sgd import sgd

from task.config import Sgd
from task.optim.base import MOMENTUM, LocalOptimizer


class LocalSgd(LocalOptimizer[Sgd]):
    """The arithmetic of `torch.optim.SGD`."""

    kept: ClassVar = (MOMENTUM,)

    def move(
        self,
        parameters: list[Tensor],
        gradients: list[Tensor],
        state: Mapping[str, list[Tensor | None]],
        rate: float,
    ) -> Mapping[str, Sequence[Tensor | None]]:
        momentum = state[MOMENTUM]
        if (
            self._fused and self._settings.momentum
        ):  # the fused kernel needs a buffer for all or for none
            momentum = [
                torch.zeros_like(gradient) if buffer is None else buffer
                for buffer, gradient in zip(momentum, gradients, strict=True)
            ]
        sgd(
            parameters,
            gradients,
            momentum,
            lr=rate,
            momentum=self._settings.momentum,
            weight_decay=self._settings.weight_decay,
            dampening=0,
            nesterov=self._settings.nesterov,
            maximize=False,
            foreach=False,
            fused=self._fused,
        )
        return {MOMENTUM: momentum}
