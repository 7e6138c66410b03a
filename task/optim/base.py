"""The steps of one optimizer for all clients, whose state is replaced for each of them."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, Generic, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_

from task.config import AdamW, Sgd
from task.optim.parameters import CLASSIFIER

Settings = TypeVar("Settings", Sgd, AdamW)
# Begin the names of an optimizer's tensors in a client's state.
MOMENTUM, SECOND_MOMENT, STEPS = "momentum of ", "second moment of ", "steps of "


class LocalOptimizer(ABC, Generic[Settings]):
    """One of PyTorch's optimizers in its functional form, over the trainable parameters.

    The arithmetic is that of PyTorch's class, without its import of PyTorch's compiler, which adds
    four seconds to the start of each worker.

    Args:
        parameters: the trainable parameters, by name.
        settings: of the experiment.

    Attributes:
        kept: what begins the names of its tensors in a client's state, one for each kind.
        rate: the classifier's learning rate in the next steps; it begins as that of the settings.
            That of the other layers is `backbone_scale` times as large.
    """

    kept: ClassVar[tuple[str, ...]]

    def __init__(self, parameters: Mapping[str, nn.Parameter], settings: Settings) -> None:
        self._names, self._parameters = list(parameters), list(parameters.values())
        self._settings: Settings = settings
        self.rate = settings.lr
        self._places: dict[float, list[int]] = {}  # of the parameters, by what scales their rate
        for place, name in enumerate(self._names):
            scale = 1.0 if name.startswith(CLASSIFIER) else settings.backbone_scale
            self._places.setdefault(scale, []).append(place)
        # On a GPU one fused kernel saves launches. On a CPU it is no faster, and the plain form
        # rounds exactly as the definition does.
        self._fused = bool(self._parameters) and self._parameters[0].is_cuda
        self._state: dict[str, list[Tensor | None]]
        self.begin({})

    def begin(self, state: Mapping[str, Tensor]) -> None:
        """Replace the optimizer's state by a client's, and by none where it has none.

        Its memory is ordered as that of its parameter, which the fused kernels require.
        """
        self._state = {
            kind: [
                None if (value := state.get(kind + name)) is None else ordered_as(value, parameter)
                for name, parameter in zip(self._names, self._parameters, strict=True)
            ]
            for kind in self.kept
        }

    def state(self) -> dict[str, Tensor]:
        """Return what a client keeps for its next round: the optimizer's state, or nothing."""
        if not self._settings.keep_momentum:
            return {}
        return {
            kind + name: value
            for kind, values in self._state.items()
            for name, value in zip(self._names, values, strict=True)
            if value is not None
        }

    def clear_gradients(self) -> None:
        """Drop all gradients."""
        for parameter in self._parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Update every parameter that has a gradient, after clipping the gradients' common norm."""
        if self._settings.max_gradient_norm is not None:
            clip_grad_norm_(self._parameters, self._settings.max_gradient_norm)
        for scale, places in self._places.items():
            at = [i for i in places if self._parameters[i].grad is not None]
            parameters: list[Tensor] = [self._parameters[i] for i in at]
            gradients = [value.grad for value in parameters if value.grad is not None]
            state = {kind: [values[i] for i in at] for kind, values in self._state.items()}
            moved = self.move(parameters, gradients, state, self.rate * scale)
            for kind, values in moved.items():
                for i, value in zip(at, values, strict=True):
                    self._state[kind][i] = value

    @abstractmethod
    def move(
        self,
        parameters: list[Tensor],
        gradients: list[Tensor],
        state: Mapping[str, list[Tensor | None]],
        rate: float,
    ) -> Mapping[str, Sequence[Tensor | None]]:
        """Change parameters in place, and return their state after the step.

        Args:
            parameters: those that have a gradient.
            gradients: theirs.
            state: theirs by kind; None before a parameter's first step.
            rate: the learning rate.
        """


def ordered_as(value: Tensor, parameter: Tensor) -> Tensor:
    """Return a copy whose memory is ordered as a parameter's, if it has the parameter's shape."""
    if value.shape != parameter.shape:  # a number of steps
        return value.clone()
    return torch.empty_like(parameter, requires_grad=False).copy_(value)


def without_optimizer(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return what a client's state holds for the method."""
    kinds = (MOMENTUM, SECOND_MOMENT, STEPS)
    return {name: value for name, value in state.items() if not name.startswith(kinds)}
