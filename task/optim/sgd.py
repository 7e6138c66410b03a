"""Stochastic gradient descent whose momentum is replaced for each client."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.optim.sgd import sgd

from task.config import Sgd
from task.optim.base import MOMENTUM, LocalOptimizer


class LocalSgd(LocalOptimizer):
    """The arithmetic of `torch.optim.SGD`.

    Args:
        parameters: the trainable parameters, by name.
        settings: learning rate, momentum, weight decay and the largest gradient norm.
    """

    kept: ClassVar = (MOMENTUM,)

    def __init__(self, parameters: Mapping[str, nn.Parameter], settings: Sgd) -> None:
        super().__init__(parameters, settings)
        self._settings = settings

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
