"""What a round's clients sent, taken in as it arrives."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from flwr.app import ArrayRecord
from torch import Tensor

from server_app.weights import Weights, from_tensors, to_record, to_tensors
from task.averaging import ExactSum


class Intake:
    """One round's accepted updates: their sum and, where the strategy looks at each, each of them.

    Attributes:
        before: the global weights that the clients started from; updates have their names, shapes
            and dtypes.
        broadcast: what the method's server half sent; what comes back beside the weights has its
            names, shapes and dtypes.
        shares: by participant, its weight in the round's mean; they sum to 1.
        examples: by participant, how many images it trains on.
        accepted: the clients taken in so far.
        moved: by client, how far its weights are from `before`, float32, where each is looked at.
            Small numbers keep their precision: the distance between two clients' weights is
            computed from them without cancellation.
    """

    def __init__(
        self,
        before: Weights,
        broadcast: Weights,
        shares: Mapping[int, float],
        examples: Mapping[int, int],
        each: bool,
    ) -> None:
        self.before, self.broadcast = before, broadcast
        self.shares, self.examples = shares, examples
        self.accepted: list[int] = []
        self.moved: dict[int, ArrayRecord] = {}
        self._each = each
        self._weights = ExactSum(to_tensors(before))
        self._extra = ExactSum(to_tensors(broadcast))

    def take(self, client: int, weights: Weights, extra: Weights) -> None:
        """Take in one client's model.

        Raises:
            TrainingError: a number grew too large.
        """
        share = self.shares[client]
        part = self._weights.part(to_tensors(weights), share)
        self._extra.add(self._extra.part(to_tensors(extra), share))
        self._weights.add(part)
        self.accepted.append(client)
        if self._each:
            moved = {
                name: (value.astype(np.float64) - start.astype(np.float64)).astype(value.dtype)
                for name, start in self.before.items()
                if np.issubdtype((value := weights[name]).dtype, np.floating)
            }
            self.moved[client] = to_record(moved)

    def take_sum(self, clients: Sequence[int], weights: Weights, extra: Weights) -> None:
        """Take in the totals of an `ExactSum` of several clients, and of what came beside."""
        self._weights.add(to_tensors(weights))
        self._extra.add(to_tensors(extra))
        self.accepted += clients

    def mean(self) -> Weights:
        """The accepted clients' weighted mean, float64, and the largest of integers."""
        return from_tensors(self._weights.mean(self._share()))

    def mean_extra(self) -> dict[str, Tensor]:
        """The weighted mean of what came beside the weights, float64."""
        return self._extra.mean(self._share())

    def _share(self) -> float:
        return math.fsum(self.shares[client] for client in self.accepted)
