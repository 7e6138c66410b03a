"""What a work unit sends of the models it trained: each by itself, or their weighted sum."""

from collections.abc import Callable

from task.exact_sum import NO_KEY, ExactSum, IntegerSum
from task.methods.base import Tensors
from task.protocol.tensors import PackedTensors
from task.protocol.training import SUM, TrainRequest
from task.training.loop import LocalResult


class SeparateModels:
    """The trained models, each by itself."""

    def __init__(self) -> None:
        self._weights: dict[str, PackedTensors] = {}
        self._extra: dict[str, PackedTensors] = {}

    def add(self, client: int, result: LocalResult) -> None:
        """Add a client's result."""
        self._weights[str(client)] = PackedTensors.of(result.weights)
        if result.extra:
            self._extra[str(client)] = PackedTensors.of(result.extra)

    def weights(self) -> dict[str, PackedTensors]:
        """Return the models by client."""
        return self._weights

    def extra(self) -> dict[str, PackedTensors]:
        """Return what the method sends in addition, by client."""
        return self._extra


class ModelSum:
    """The weighted sum of the trained models.

    Args:
        request: names the clients and their shares.
        total: an empty sum of models.
        broadcast: what the method's server update sent.
        key_of: returns what the random rounding of a client's numbers is drawn from.
    """

    def __init__(
        self,
        request: TrainRequest,
        total: IntegerSum,
        broadcast: Tensors,
        key_of: Callable[[int], bytes],
    ) -> None:
        self._shares = dict(zip(request.clients, request.shares, strict=True))
        self._weights, self._extra = total, ExactSum(broadcast)
        self._key_of = key_of

    def add(self, client: int, result: LocalResult) -> None:
        """Add a client's result.

        Raises:
            TrainingError: a number is too large for the sum; nothing was added.
        """
        share = self._shares[client]
        weights = self._weights.to_fixed_point(result.weights, share, self._key_of(client))
        extra = self._extra.to_fixed_point(result.extra, share, NO_KEY)
        self._weights.add(weights)
        self._extra.add(extra)

    def weights(self) -> dict[str, PackedTensors]:
        """Return the sum of the models; empty if every client failed."""
        return packed_sum(self._weights)

    def extra(self) -> dict[str, PackedTensors]:
        """Return the sum of what the method sends in addition; empty if there is nothing."""
        return packed_sum(self._extra)


def packed_sum(total: IntegerSum) -> dict[str, PackedTensors]:
    """Pack a sum under the key `SUM`; empty if nothing was added."""
    return {SUM: PackedTensors.of(total.totals)} if total.totals else {}
