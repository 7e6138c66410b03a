"""Updates that are held until a guard has compared all of them."""

from collections.abc import Collection, Iterator
from statistics import median
from typing import NamedTuple

from server_app.aggregation.guards.base import Guard
from task.optim.update_norm import scale_update, update_norm
from task.tensors import Tensors

ADDITIONAL = "additional"  # what the method sends


class FilterDecision(NamedTuple):
    """A guard's decision on one client's update.

    Attributes:
        client: the client.
        scale: the factor of its update, in [0, 1]; see `Guard.scales`.
        reason: why it is below 1; empty otherwise.
        weights: the weights that count, unless the scale is 0.
        extra: what the method sent in addition, likewise.
        sent: the weights as the client sent them.
    """

    client: int
    scale: float
    reason: str
    weights: Tensors
    extra: Tensors
    sent: Tensors


class UpdateFilter:
    """Holds updates for a guard.

    Parameters, statistics, and what the method sends in addition are compared separately, because
    the largest would hide the others: batch norm's statistics change much in the first round, and
    SCAFFOLD's control variates have the size of gradients.

    Args:
        guard: decides on the updates.
        before: the global weights that the clients started from.
        trained: the names of the parameters that training changes; the others are statistics.
    """

    def __init__(self, guard: Guard, before: Tensors, trained: Collection[str]) -> None:
        self._guard, self._before = guard, before
        names = [name for name, value in before.items() if value.is_floating_point()]
        self._kinds = {
            "parameters": [name for name in names if name in trained],
            "statistics": [name for name in names if name not in trained],
            ADDITIONAL: [],
        }
        self._norms: dict[str, dict[int, float]] = {kind: {} for kind in self._kinds}
        self._held: dict[int, tuple[Tensors, Tensors]] = {}

    def hold(self, client: int, weights: Tensors, extra: Tensors) -> None:
        """Hold an update, and compute its norms."""
        for kind, names in self._kinds.items():
            part = {name: weights[name] for name in names}
            added = extra if kind == ADDITIONAL else {}
            self._norms[kind][client] = update_norm(part, added, self._before)
        self._held[client] = weights, extra

    def decisions(self) -> Iterator[FilterDecision]:
        """Decide on the held updates and release them.

        Updates that were decided on earlier in this round are compared as well.
        """
        scales = {kind: self._guard.scales(norms) for kind, norms in self._norms.items()}
        for client in list(self._held):
            weights, extra = self._held.pop(client)
            kind = min(scales, key=lambda kind: scales[kind][client])
            scale, reason = scales[kind][client], ""
            counted = weights, extra
            if scale < 1:
                norms = self._norms[kind]
                reason = (
                    f"the norm of its {kind} update is {norms[client]:.4g}, "
                    f"the median is {median(norms.values()):.4g}"
                )
            if 0 < scale < 1:
                counted = scale_update(weights, extra, self._before, scale)
            yield FilterDecision(client, scale, reason, *counted, weights)
