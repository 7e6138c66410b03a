"""The part of a model that stays with its client: it is kept in the client's state and never sent.

The rest is shared: the server sends it, clients train it, and it is aggregated.
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
        names: the names of the entries; empty if the whole model is shared.
    """

    def __init__(self, model: nn.Module, names: Collection[str]) -> None:
        initial = to_cpu(model.state_dict())
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
        return {**shared, **own} if own else shared

    def split(self, result: LocalResult) -> LocalResult:
        """Return the result of a client that keeps its part in its state."""
        if not self:
            return result
        kept = {PERSONAL + name: result.weights[name] for name in self._initial}
        shared = {n: value for n, value in result.weights.items() if n not in self._initial}
        return replace(result, weights=shared, state={**result.state, **kept})


def without_personal(state: Tensors) -> Tensors:
    """Return what a client's state holds besides its part of the model."""
    return {name: value for name, value in state.items() if not name.startswith(PERSONAL)}
