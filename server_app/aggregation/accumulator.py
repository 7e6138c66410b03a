"""A round's updates, added up as they arrive."""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from torch import Tensor

from server_app.aggregation.client_update import ClientUpdate
from server_app.aggregation.guards.base import Guard
from task.errors import TrainingError
from task.exact_sum import NO_KEY, ExactSum, IntegerSum
from task.registry import named
from task.tensors import Tensors

if TYPE_CHECKING:
    from server_app.aggregation.update_filter import FilterDecision, UpdateFilter

FILTER = "server_app.aggregation.update_filter:UpdateFilter"

Rebase = Callable[[int, Tensors], Tensors]


def no_problem(_extra: Tensors) -> str:
    """Return that what a client sent in addition can be used."""
    return ""


def as_sent(weights: Tensors, _start: Tensors) -> Tensors:
    """Return weights that were sent as they are."""
    return weights


@dataclass(frozen=True)
class SumSettings:
    """What the sums of all rounds of a run have in common.

    Attributes:
        guard: filters the updates.
        trained: the names of the parameters that training changes; the others are statistics.
        terms: the names of the loss terms that clients may report.
        each: whether the strategy needs each update.
        mean: whether the mean is needed.
        problem_with: see `ServerUpdate.problem_with`.
        new_sum: returns an empty sum of models that were trained from given weights.
        read: returns a model from what one client sent of it, and the weights that it started from.
    """

    guard: Guard
    trained: Collection[str]
    terms: Collection[str]
    each: bool = False
    mean: bool = True
    problem_with: Callable[[Tensors], str] = no_problem
    new_sum: Callable[[Tensors], IntegerSum] = ExactSum
    read: Callable[[Tensors, Tensors], Tensors] = as_sent


class UpdateAccumulator:
    """One round's updates: the outcome of each, and the sum of those that count.

    Args:
        before: the global weights that the clients started from.
        broadcast: what the method's server update sent.
        shares: each participant's weight in the round's mean; at most 1.
        examples: the number of images that each participant trains on.
        settings: what the sums of all rounds have in common.
        keep: whether each accepted model is kept.
        rebase: takes a client and its model, which may have started from older weights than
            `before`, and returns the model that counts.

    Attributes:
        before: the global weights that the clients started from.
        broadcast: what the method's server update sent.
        shares: by participant; the weight of its update, at most 1.
        examples: by participant.
        terms: the names of the loss terms that clients may report.
        problem_with: see `ServerUpdate.problem_with`.
        read: see `SumSettings`.
        updates: each participant's outcome so far. This is the only place that says which updates
            count.
        moved: by client, its weights minus `before`, float32, if the strategy needs each update.
            Differences keep the precision that the distance between two clients' weights needs.
        models: by client, its model as it was sent, if each is kept.
        adds_up: whether the sum of the updates is enough, so that a worker may send a sum.
    """

    def __init__(
        self,
        before: Tensors,
        broadcast: Tensors,
        shares: dict[int, float],
        examples: dict[int, int],
        settings: SumSettings,
        keep: bool = False,
        rebase: Rebase | None = None,
    ) -> None:
        guard, each = settings.guard, settings.each
        self.problem_with, self.terms = settings.problem_with, frozenset(settings.terms)
        self.read = settings.read
        self.before, self.broadcast = before, broadcast
        self.shares, self.examples = shares, examples
        self.updates: dict[int, ClientUpdate] = {}
        self.moved: dict[int, Tensors] = {}
        self.models: dict[int, Tensors] = {}
        self.adds_up = not (each or keep or rebase or guard.needs_each_update)
        self._each, self._keep, self._rebase = each, keep, rebase
        self._filter: UpdateFilter | None = None
        if guard.needs_each_update:
            self._filter = named(FILTER)(guard, before, settings.trained)
        # Without a mean, numbers may be of any size; the sum bounds how far they grow.
        self._summed = [
            name for name, value in before.items() if settings.mean or not value.is_floating_point()
        ]
        self._weights = settings.new_sum({name: before[name] for name in self._summed})
        self._extra = ExactSum(broadcast)

    @property
    def accepted(self) -> list[int]:
        """The clients whose updates count so far."""
        return [client for client, update in self.updates.items() if update.accepted]

    def refuse(self, updates: Iterable[ClientUpdate], reason: str) -> None:
        """Record updates that do not count."""
        for update in updates:
            self.updates[update.client] = replace(update, reason=reason)

    def expect(self, client: int, share: float, examples: int) -> None:
        """Add a participant that was not known when the round began."""
        self.shares[client], self.examples[client] = share, examples

    def describe(self, client: int, **fields: Any) -> None:
        """Replace fields of a participant's outcome."""
        self.updates[client] = replace(self.updates[client], **fields)

    def add(self, update: ClientUpdate, weights: Tensors, extra: Tensors) -> None:
        """Add one client's model. If the guard needs each update, `apply_filter` decides later.

        Raises:
            TrainingError: a number is too large for the sum; nothing was added.
        """
        if self._rebase:
            weights = self._rebase(update.client, weights)
        if self._filter:
            self._filter.hold(update.client, weights, extra)
        else:
            self._add(update.client, weights, extra, weights)
        self.updates[update.client] = update

    def add_sum(self, updates: Sequence[ClientUpdate], weights: Tensors, extra: Tensors) -> None:
        """Add the sum of several clients' models, as `IntegerSum.totals`.

        Raises:
            TrainingError: no models can have this sum; nothing was added.
        """
        self._weights.check_totals(weights)
        self._extra.check_totals(extra)
        self._weights.add(weights)
        self._extra.add(extra)
        self.updates |= {update.client: update for update in updates}

    def apply_filter(self) -> "list[FilterDecision]":
        """Have the guard decide on the updates that are held; return those that it scaled down."""
        scaled = []
        for decision in self._filter.decisions() if self._filter else ():
            client, reason = decision.client, decision.reason
            if decision.scale > 0:
                try:
                    self._add(client, decision.weights, decision.extra, decision.sent)
                except TrainingError as error:
                    self.refuse([self.updates[client]], str(error))
                else:
                    scaled += [decision] if reason else []
            else:
                self.refuse([self.updates[client]], reason)
        return scaled

    def take_moved(self) -> Iterator[Tensors]:
        """Yield the entry of `moved` of each accepted client, ordered by client, and release it."""
        for client in sorted(self.accepted):
            yield self.moved.pop(client)

    def mean(self) -> dict[str, Tensor]:
        """Return the weighted mean, float64, if it is needed, and the largest of integers."""
        return self._weights.mean(self._accepted_share())

    def mean_extra(self) -> dict[str, Tensor]:
        """Return the weighted mean of what the method sent in addition, float64."""
        return self._extra.mean(self._accepted_share())

    def _add(self, client: int, weights: Tensors, extra: Tensors, sent: Tensors) -> None:
        share = self.shares[client]
        summed = {name: weights[name] for name in self._summed}
        # Random rounding is the clients' own, so that a single model needs no key.
        part = self._weights.to_fixed_point(summed, share, NO_KEY)
        part_extra = self._extra.to_fixed_point(extra, share, NO_KEY)
        if self._each:
            self.moved[client] = {
                name: difference(weights[name], start)
                for name, start in self.before.items()
                if start.is_floating_point()
            }
        if self._keep:
            self.models[client] = sent
        self._weights.add(part)
        self._extra.add(part_extra)

    def _accepted_share(self) -> float:
        return math.fsum(self.shares[client] for client in self.accepted)


def difference(value: Tensor, start: Tensor) -> Tensor:
    """Return ``value - start`` in the type of `value`, rounded once."""
    return (value.double() - start.double()).to(value.dtype)
