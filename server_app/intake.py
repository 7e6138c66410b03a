"""What a round's clients sent, taken in as it arrives."""

import math
from collections.abc import Collection, Mapping, Sequence

import numpy as np
from flwr.app import ArrayRecord
from numpy.typing import NDArray
from torch import Tensor

from server_app.guards.base import Guard
from server_app.judgement import Judgement
from server_app.weights import Weights, from_tensors, is_float, to_record, to_tensors
from task.averaging import ExactSum
from task.errors import TrainingError


class Intake:
    """One round's accepted updates: their sum and, where the strategy looks at each, each of them.

    Args:
        before: the global weights that the clients started from.
        broadcast: what the method's server half sent.
        shares: by participant, its weight in the round's mean.
        examples: by participant, how many images it trains on.
        guard: judges the updates beside each other.
        trained: the names of the parameters that training changes; the others are statistics.
        each: whether the strategy looks at each.
        mean: whether the mean is needed.
        keep: whether each accepted model is kept as it is.

    Attributes:
        before: the global weights that the clients started from; updates have their names, shapes
            and dtypes.
        broadcast: what the method's server half sent; what comes back beside the weights has its
            names, shapes and dtypes.
        shares: by participant, its weight in the round's mean; they sum to 1.
        examples: by participant, how many images it trains on.
        accepted: the clients that count so far.
        moved: by client, how far its weights are from `before`, float32, where each is looked at.
            Small numbers keep their precision: the distance between two clients' weights is
            computed from them without cancellation.
        models: by client, its model as it was sent, where each is kept.
        adds_up: whether all that is needed of the updates is their sum.
    """

    def __init__(
        self,
        before: Weights,
        broadcast: Weights,
        shares: Mapping[int, float],
        examples: Mapping[int, int],
        guard: Guard,
        trained: Collection[str],
        each: bool,
        mean: bool,
        keep: bool = False,
    ) -> None:
        self.before, self.broadcast = before, broadcast
        self.shares, self.examples = shares, examples
        self.accepted: list[int] = []
        self.moved: dict[int, ArrayRecord] = {}
        self.models: dict[int, Weights] = {}
        self.adds_up = not (each or keep or guard.looks)
        self._each, self._keep = each, keep
        self._judgement = Judgement(guard, before, trained) if guard.looks else None
        # What is only looked at may hold anything; the sum bounds how far numbers grow.
        self._summed = [name for name, value in before.items() if mean or not is_float(value)]
        self._weights = ExactSum(to_tensors(chosen(before, self._summed)))
        self._extra = ExactSum(to_tensors(broadcast))

    def take(self, client: int, weights: Weights, extra: Weights) -> None:
        """Take in one client's model; if the guard looks at it, it is held until `settle`.

        Raises:
            TrainingError: a number grew too large.
        """
        if self._judgement:
            self._judgement.hold(client, weights, extra)
        else:
            self._add(client, weights, extra, weights)

    def settle(self) -> dict[int, tuple[float, str]]:
        """Have what is held judged beside each other, and take in what counts.

        Returns:
            By client, for those that do not count in full: how much of the update does, and why.
        """
        found: dict[int, tuple[float, str]] = {}
        for verdict in self._judgement.verdicts() if self._judgement else ():
            share, reason = verdict.share, verdict.reason
            if share > 0:
                try:
                    self._add(verdict.client, verdict.weights, verdict.extra, verdict.sent)
                except TrainingError as error:
                    share, reason = 0.0, str(error)
            if reason:
                found[verdict.client] = share, reason
        return found

    def _add(self, client: int, weights: Weights, extra: Weights, sent: Weights) -> None:
        share = self.shares[client]
        part = self._weights.part(to_tensors(chosen(weights, self._summed)), share)
        part_extra = self._extra.part(to_tensors(extra), share)
        if self._each:
            self.moved[client] = to_record(
                {
                    name: distance(weights[name], start)
                    for name, start in self.before.items()
                    if is_float(start)
                }
            )
        if self._keep:
            self.models[client] = sent
        self._weights.add(part)
        self._extra.add(part_extra)
        self.accepted.append(client)

    def take_sum(self, clients: Sequence[int], weights: Weights, extra: Weights) -> None:
        """Take in the totals of an `ExactSum` of several clients, and of what came beside.

        Raises:
            TrainingError: no models can have added up to them.
        """
        self._weights.check(to_tensors(weights))
        self._extra.check(to_tensors(extra))
        self._weights.add(to_tensors(weights))
        self._extra.add(to_tensors(extra))
        self.accepted += clients

    def mean(self) -> Weights:
        """The accepted clients' weighted mean, float64, if needed, and the largest of integers."""
        return from_tensors(self._weights.mean(self._share()))

    def mean_extra(self) -> dict[str, Tensor]:
        """The weighted mean of what came beside the weights, float64."""
        return self._extra.mean(self._share())

    def _share(self) -> float:
        return math.fsum(self.shares[client] for client in self.accepted)


def chosen(weights: Weights, names: Sequence[str]) -> Weights:
    """Some of the arrays."""
    return {name: weights[name] for name in names}


def distance(value: NDArray[np.generic], start: NDArray[np.generic]) -> NDArray[np.generic]:
    """How far a value is from the start, rounded once."""
    return np.asarray(value.astype(np.float64) - start.astype(np.float64), dtype=value.dtype)
