"""A round's updates held until all are there, and judged beside each other."""

from collections.abc import Collection, Iterator
from statistics import median
from typing import NamedTuple

from server_app.guards.base import Guard
from server_app.weights import Weights, from_tensors, is_float, to_tensors
from task.lengths import length, shorten


class Verdict(NamedTuple):
    """What a guard makes of one client's update.

    Attributes:
        client: whose it is.
        share: how much of it counts; see `Guard.shares`.
        reason: why not all of it; empty if all of it does.
        weights: what counts, unless nothing does.
        extra: what the method sent beside it, likewise.
        sent: the weights as the client sent them.
    """

    client: int
    share: float
    reason: str
    weights: Weights
    extra: Weights
    sent: Weights


class Judgement:
    """Holds updates for a guard.

    Parameters and statistics are judged apart: those of batch norm leap in the first round, and
    would hide what becomes of the parameters.

    Args:
        guard: the judge.
        before: the global weights that the clients started from.
        trained: the names of the parameters that training changes; the others are statistics.
    """

    def __init__(self, guard: Guard, before: Weights, trained: Collection[str]) -> None:
        self._guard, self._before = guard, before
        names = [name for name, value in before.items() if is_float(value)]
        self._kinds = {
            "parameters": [name for name in names if name in trained],
            "statistics": [name for name in names if name not in trained],
        }
        self._lengths: dict[str, dict[int, float]] = {kind: {} for kind in self._kinds}
        self._held: dict[int, tuple[Weights, Weights]] = {}

    def hold(self, client: int, weights: Weights, extra: Weights) -> None:
        """Keep an update, and measure it; what is beside it counts with the parameters."""
        start, beside = to_tensors(self._before), to_tensors(extra)
        for kind, names in self._kinds.items():
            part = to_tensors({name: weights[name] for name in names})
            self._lengths[kind][client] = length(part, beside, start)
            beside = {}
        self._held[client] = weights, extra

    def verdicts(self) -> Iterator[Verdict]:
        """Judge what is held, and let go of it; who was held before in this round is a peer."""
        shares = {kind: self._guard.shares(lengths) for kind, lengths in self._lengths.items()}
        held, self._held = self._held, {}
        for client, sent in held.items():
            kind = min(shares, key=lambda kind: shares[kind][client])
            share, reason = shares[kind][client], ""
            if share < 1:
                lengths = self._lengths[kind]
                middle = median(lengths.values())
                reason = f"its {kind} moved by {lengths[client]:.4g}, the median is {middle:.4g}"
            whole = share in (0, 1)  # all of it counts, or nothing, and that stays as it is
            counted = sent if whole else self._near(*sent, share)
            yield Verdict(client, share, reason, *counted, sent[0])

    def _near(self, weights: Weights, extra: Weights, share: float) -> tuple[Weights, Weights]:
        near = shorten(to_tensors(weights), to_tensors(extra), to_tensors(self._before), share)
        return from_tensors(near[0]), from_tensors(near[1])
