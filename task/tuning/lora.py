"""The head is trained, and low-rank adapters of the layers before it.

Source: Hu et al., "LoRA", ICLR 2022; see `task.models.layers.low_rank`. Adapters are averaged one
matrix at a time, as in FedIT: the average of products is not the product of averages. A model for
prediction has the adapters added to its layers.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, cast

import torch
from torch import Tensor, nn

from task.errors import ConfigError, refuse
from task.models.layers.low_rank import LowRank, adapter_size, merged, takes_adapter
from task.registry import Names
from task.tensors import Tensors
from task.tuning.base import HEAD, Tuning, head_of

ADAPTERS = (".lora_down.weight", ".lora_up.weight")
MOST_NAMED = 6  # in a message


@dataclass
class Lora(Tuning):
    """Head and adapters.

    Attributes:
        rank: r, at least 1.
        alpha: the adapters' output is multiplied by alpha / r; above 0.
        targets: the names of the layers that get an adapter, or their last parts, such as ``qkv``;
            None for each linear layer and each convolution without groups. A layer that is not
            larger than its adapter gets none.
    """

    trains_norm: ClassVar[bool] = False
    adapts: ClassVar[bool] = True

    rank: int
    alpha: float
    targets: Names | None = None

    def __post_init__(self) -> None:
        if self.rank < 1:
            refuse(self, "rank", "must be at least 1")
        if self.alpha <= 0:
            refuse(self, "alpha", "must be above 0")
        if self.targets == []:
            refuse(self, "targets", "must name a layer; null is for all")

    def trained(self, model: nn.Module) -> Collection[str]:
        adapters = [name for name, _ in model.named_parameters() if name.endswith(ADAPTERS)]
        return [*adapters, *head_of(model)]

    def adapt(self, model: nn.Module, shape: Sequence[int], generator: torch.Generator) -> None:
        layers = dict(self._layers(model))
        used = called(model, layers, shape)
        for name, layer in layers.items():
            if layer in used:
                outer, _, last = name.rpartition(".")
                adapted = LowRank(layer, self.rank, self.alpha, generator)
                setattr(model.get_submodule(outer), last, adapted)
        if not used:
            allowed = (
                "no layer before the head is larger than its adapter; lower it, or use tune=head"
            )
            raise ConfigError("tune.rank", self.rank, allowed)

    def added_numbers(self, model: nn.Module) -> int:
        return sum(adapter_size(layer, self.rank) for _, layer in self._layers(model))

    def merged(self, weights: Tensors) -> Tensors:
        return merged(weights)

    def _layers(self, model: nn.Module) -> Iterator[tuple[str, nn.Linear | nn.Conv2d]]:
        """Yield the name of each layer that may get an adapter, and the layer.

        Raises:
            ConfigError: a target is no such layer.
        """
        possible = {
            name: cast("nn.Linear | nn.Conv2d", layer)
            for name, layer in model.named_modules()
            if takes_adapter(layer) and not f"{name}.".startswith(HEAD)
        }
        for target in self.targets or ():
            if not any(matches(name, target) for name in possible):
                near = ", ".join([*possible][-MOST_NAMED:]) or "none"
                allowed = f"is no linear layer or convolution before the head; some are {near}"
                raise ConfigError("tune.targets", target, allowed)
        for name, layer in possible.items():
            chosen = not self.targets or any(matches(name, each) for each in self.targets)
            if chosen and adapter_size(layer, self.rank) < layer.weight.numel():
                yield name, layer


def matches(name: str, target: str) -> bool:
    """Return whether a layer has a name, or one that ends in it."""
    return f".{name}".endswith(f".{target}")


def called(
    model: nn.Module, layers: Mapping[str, nn.Module], shape: Sequence[int]
) -> set[nn.Module]:
    """Return the layers that a network calls, and whose weight it does not take out of them.

    Args:
        model: the network; its mode stays.
        layers: by name.
        shape: of its input.
    """
    found: set[nn.Module] = set()

    def note(layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        del inputs
        found.add(layer)

    hooks = [layer.register_forward_pre_hook(note) for layer in layers.values()]
    training = model.training
    with torch.no_grad():
        model.eval()(torch.zeros(*shape))
    model.train(training)
    for hook in hooks:
        hook.remove()
    return found
