"""What is trained of a network; the rest is frozen: it does not change, and is never sent.

The head, which is the projector and the classifier, is trained always. Of the rest, if it is not
trained as a whole, batch norm keeps the statistics that it starts with, and what has no trained
parameter runs in evaluation mode.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Generator, nn
from torch.nn.modules.batchnorm import _BatchNorm

from task.optim.parameters import CLASSIFIER
from task.tensors import Tensors

HEAD = ("projector.", CLASSIFIER)  # begin the names of what comes after the feature extractor


@dataclass
class Tuning(ABC):
    """Chooses the trained parameters.

    Attributes:
        whole: whether the whole network is trained.
        head_alone: whether nothing before the head is trained.
        trains_norm: whether scale and shift of normalisation before the head may be trained.
        adapts: whether `adapt` changes the network.
    """

    whole: ClassVar[bool] = False
    head_alone: ClassVar[bool] = False
    trains_norm: ClassVar[bool] = True
    adapts: ClassVar[bool] = False
    __pydantic_config__: ClassVar = {"extra": "forbid"}

    def adapt(  # noqa: B027  (most add nothing)
        self, model: nn.Module, shape: Sequence[int], generator: Generator
    ) -> None:
        """Add to a network, with the weights that it starts from, what is trained in addition.

        Args:
            model: changed in place.
            shape: of an input, [1, C, H, W].
            generator: draws the initial weights of what is added.

        Raises:
            ConfigError: nothing can be added.
        """

    def added_numbers(self, model: nn.Module) -> int:
        """Return how many numbers `adapt` adds to a network at most."""
        return 0

    def merged(self, weights: Tensors) -> Tensors:
        """Return the weights of the network that `adapt` has not changed, equal in its output."""
        return weights

    @abstractmethod
    def trained(self, model: nn.Module) -> Collection[str]:
        """Return the names of the parameters that are trained."""

    def freeze(self, model: nn.Module) -> Collection[str]:
        """Freeze the other parameters; return the names in the ``state_dict`` of what is frozen."""
        if self.whole:
            return ()
        trained = set(self.trained(model))
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(parameter.requires_grad and name in trained)
        return [n for n in model.state_dict() if n not in trained and not n.startswith(HEAD)]

    def set_mode(self, model: nn.Module) -> None:
        """Put a model into training mode, but for what is frozen."""
        model.train()
        if self.whole:
            return
        for name, module in model.named_modules():
            still = not any(parameter.requires_grad for parameter in module.parameters())
            if not name.startswith(HEAD) and (still or isinstance(module, _BatchNorm)):
                module.eval()


def head_of(model: nn.Module) -> list[str]:
    """Return the names of the parameters of the projector and the classifier."""
    return [name for name, _ in model.named_parameters() if name.startswith(HEAD)]
