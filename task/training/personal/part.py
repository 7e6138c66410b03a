"""The parts of a model that are never sent: what stays with its client, and what is frozen.

A client's own part is kept in its state. What is frozen is the same everywhere. The rest is shared:
the server sends it, clients train it, and it is aggregated.
"""

from collections.abc import Collection
from dataclasses import replace

from torch import Tensor, nn

from task.tensors import Tensors
from task.training.loop import LocalResult
from task.training.transfer import to_cpu

PERSONAL = "personal copy of "  # begins the names of the part's tensors in a client's state


class PersonalPart:
    """The entries of a model's ``state_dict`` that stay with the client.

    Args:
        model: with its initial weights; those of the part are what a client starts from.
        names: the names of the entries; empty if no part stays with the client.
        frozen: the names of the entries that never change, which are no client's own.

    Attributes:
        frozen: these entries, on the CPU.
    """

    def __init__(
        self, model: nn.Module, names: Collection[str], frozen: Collection[str] = ()
    ) -> None:
        initial = to_cpu(model.state_dict())
        self.frozen: Tensors = {name: initial.pop(name) for name in frozen}
        self._initial = {name: initial[name] for name in initial if name in names}
        self._shared = {name: initial[name] for name in initial if name not in names}

    def __bool__(self) -> bool:
        return bool(self._initial)

    @property
    def names(self) -> list[str]:
        """The names of the part's entries, in the order of the ``state_dict``."""
        return list(self._initial)

    @property
    def initial(self) -> Tensors:
        """The part that a client starts from, on the CPU."""
        return self._initial

    @property
    def shared(self) -> Tensors:
        """The initial weights of the shared part, on the CPU."""
        return self._shared

    def of(self, model: nn.Module) -> dict[str, Tensor]:
        """Return the part that a model has now, copied to the CPU."""
        now = model.state_dict()
        return to_cpu({name: now[name] for name in self._initial})

    def complete(self, shared: Tensors, state: Tensors) -> Tensors:
        """Return all weights of the model.

        Args:
            shared: the shared part.
            state: the client's; if it has no part, the initial one is used.
        """
        own = {name: state.get(PERSONAL + name, first) for name, first in self._initial.items()}
        return {**self.frozen, **shared, **own}

    def split(self, result: LocalResult) -> LocalResult:
        """Return the result of a client that keeps its part in its state."""
        kept = {PERSONAL + name: result.weights[name] for name in self._initial}
        shared = {name: value for name, value in result.weights.items() if name in self._shared}
        return replace(result, weights=shared, state={**result.state, **kept})


def without_personal(state: Tensors) -> Tensors:
    """Return what a client's state holds besides its part of the model."""
    return {name: value for name, value in state.items() if not name.startswith(PERSONAL)}
