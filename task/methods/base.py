"""What a local method may do, and when. Every hook has a neutral default."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from task.models.base import Output

Tensors = Mapping[str, Tensor]


class Term(NamedTuple):
    """One term of a local objective: its value, a scalar tensor, and its coefficient."""

    value: Tensor
    weight: float | Tensor


@dataclass(frozen=True)
class LocalRound:
    """The client and round that local training is about to begin.

    Attributes:
        round: the server's round, from 1.
        client: the client's number.
        generator: for the method's own random draws.
        memory: what ``finish`` kept when this client was last accepted; empty before that.
        broadcast: what the method's server half sends to everybody.
    """

    round: int
    client: int
    generator: torch.Generator
    memory: Tensors = field(default_factory=dict)
    broadcast: Tensors = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """What a method leaves behind after a client's last step, beside the weights.

    Attributes:
        memory: for this client's next round; stays with the client.
        extra: for the method's server half; sent along. Names and shapes are its broadcast's.
    """

    memory: Tensors = field(default_factory=dict)
    extra: Tensors = field(default_factory=dict)


class Contribution(NamedTuple):
    """A round's accepted clients together, as a server half sees them: it never sees one alone.

    Attributes:
        share: their part in the federation's objective; 1 if every client took part.
        weights: the mean of their trained models, by their parts in the objective, float64.
        extra: the same mean of what their ``finish`` sent along.
        known: the part of today's objective that the update before this one knew of; below 1 where
            clients have come since, by which a mean over all clients shrinks.
    """

    share: float
    weights: Tensors
    extra: Tensors
    known: float


class ServerHalf(ABC):
    """What a method does on the server, once a round, after the aggregation.

    Attributes:
        state: all that it remembers, by name; a resumed run puts it back.
    """

    state: dict[str, Tensor]

    def broadcast(self) -> Tensors:
        """What every client is sent with the global weights."""
        return {}

    @abstractmethod
    def update(self, before: Tensors, after: Tensors, clients: Contribution) -> dict[str, Tensor]:
        """The next global weights.

        Args:
            before: the weights that the clients started from.
            after: what the aggregation made of theirs.
            clients: what they sent.
        """


@dataclass
class Method:
    """A local method: plain cross-entropy, until a hook is overridden.

    A worker calls ``build`` once. Then `task.training` calls, for each client, ``start``; for each
    batch, ``batch``, the forward pass, ``loss``, the backward pass, ``gradients`` and the step; and
    at last ``finish``. A subclass is a dataclass: its fields are the settings of its YAML file.

    Attributes:
        terms: the names of the terms that ``loss`` gives; each has a column in ``clients.csv``.
        residual: whether it needs a network of residual blocks.
        memory: whether ``finish`` keeps something for the client's next round.
        server_half: whether ``server`` gives one, so that aggregation must be a mean.
        varies_network: whether the network computes something else in each batch.
        varies_cost: whether one batch may take more operations than another.
        bounds_gradients: whether its ``gradients`` limits them, and so comes after all others'.
    """

    terms: ClassVar[tuple[str, ...]] = ()
    residual: ClassVar[bool] = False
    memory: ClassVar[bool] = False
    server_half: ClassVar[bool] = False
    varies_network: ClassVar[bool] = False
    varies_cost: ClassVar[bool] = False
    bounds_gradients: ClassVar[bool] = False
    __pydantic_config__: ClassVar = {"extra": "forbid", "allow_inf_nan": False}

    def members(self) -> Sequence["Method"]:
        """The methods that this one is made of: itself, unless it is a combination."""
        return [self]

    def build(self, model: nn.Module, generator: torch.Generator) -> nn.Module:
        """Change the freshly made model, once."""
        return model

    def start(self, model: nn.Module, this: LocalRound) -> None:
        """Prepare for one client's round; `model` holds the global weights."""

    def batch(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Change a batch before the forward pass.

        Args:
            x: [n, C, H, W], float.
            y: classes [n], or class probabilities [n, D]; either may be returned.
        """
        return x, y

    def loss(self, out: Output, x: Tensor, y: Tensor) -> dict[str, Term]:
        """The terms that join the cross-entropy, by the name they are recorded under."""
        return {}

    def gradients(self, model: nn.Module) -> None:
        """Change the gradients between the backward pass and the step."""

    def finish(self, model: nn.Module) -> Outcome:
        """Look at the trained model after the client's last step."""
        return Outcome()

    def server(self, weights: Tensors) -> ServerHalf | None:
        """The method's server half; `weights` are the first global ones of the trained parameters.

        None for a method that leaves the server to the aggregation.
        """
        return None


def trained_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that local training changes, by name: no buffers, nothing frozen."""
    return {name: value for name, value in model.named_parameters() if value.requires_grad}


def snapshot(model: nn.Module) -> dict[str, Tensor]:
    """A copy of the trained parameters as they are now."""
    return {name: value.detach().clone() for name, value in trained_parameters(model).items()}


def zeros(values: Tensors) -> dict[str, Tensor]:
    """Zeros in the names and shapes of `values`."""
    return {name: torch.zeros_like(value) for name, value in values.items()}


def gradients_of(parameters: list[Tensor]) -> list[Tensor]:
    """The parameters' gradients, to change in place; 0 where the loss did not reach one.

    A parameter that the loss did not reach, in a dropped block, takes a step once it has one.
    """
    found = []
    for parameter in parameters:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        found.append(parameter.grad)
    return found
