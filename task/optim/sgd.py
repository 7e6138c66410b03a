"""Stochastic gradient descent whose momentum is replaced for each client."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_
from torch.optim.sgd import sgd

from task.config import Sgd

MOMENTUM = "momentum of "  # begins the names of the momentum's tensors in a client's state


class LocalSgd:
    """PyTorch's SGD in its functional form, over the trainable parameters.

    The arithmetic is that of `torch.optim.SGD`. That class imports PyTorch's compiler, which adds
    four seconds to the start of each worker.

    Args:
        parameters: the trainable parameters, by name.
        settings: learning rate, momentum, weight decay and the largest gradient norm.

    Attributes:
        rate: the learning rate of the next steps; it begins as that of the settings.
    """

    def __init__(self, parameters: Mapping[str, nn.Parameter], settings: Sgd) -> None:
        self._names, self._parameters = list(parameters), list(parameters.values())
        self._settings = settings
        self.rate = settings.lr
        # On a GPU one fused kernel saves launches. On a CPU it is no faster, and the plain form
        # rounds exactly as the definition does.
        self._fused = bool(self._parameters) and self._parameters[0].is_cuda
        self._momentum: list[Tensor | None]
        self.begin({})

    def begin(self, state: Mapping[str, Tensor]) -> None:
        """Replace the momentum by that of a client's state, and by none where it has none.

        Its memory is ordered as that of its parameter, which the fused kernel requires.
        """
        kept = [state.get(MOMENTUM + name) for name in self._names]
        self._momentum = [
            None if value is None else torch.empty_like(parameter, requires_grad=False).copy_(value)
            for value, parameter in zip(kept, self._parameters, strict=True)
        ]

    def state(self) -> dict[str, Tensor]:
        """Return what a client keeps for its next round: its momentum, or nothing."""
        if not self._settings.keep_momentum:
            return {}
        found = zip(self._names, self._momentum, strict=True)
        return {MOMENTUM + name: buffer for name, buffer in found if buffer is not None}

    def clear_gradients(self) -> None:
        """Drop all gradients."""
        for parameter in self._parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Update every parameter that has a gradient, after clipping the gradients' common norm."""
        if self._settings.max_gradient_norm is not None:
            clip_grad_norm_(self._parameters, self._settings.max_gradient_norm)
        at = [i for i, parameter in enumerate(self._parameters) if parameter.grad is not None]
        parameters: list[Tensor] = [self._parameters[i] for i in at]
        gradients = [value.grad for value in parameters if value.grad is not None]
        momentum = [self._momentum[i] for i in at]
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
            lr=self.rate,
            momentum=self._settings.momentum,
            weight_decay=self._settings.weight_decay,
            dampening=0,
            nesterov=self._settings.nesterov,
            maximize=False,
            foreach=False,
            fused=self._fused,
        )
        for i, buffer in zip(at, momentum, strict=True):
            self._momentum[i] = buffer


def without_momentum(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return what a client's state holds for the method."""
    return {name: value for name, value in state.items() if not name.startswith(MOMENTUM)}
