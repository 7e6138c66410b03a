"""From the clients' models to the next global one, through an inner Flower strategy."""

from collections.abc import Sequence

import numpy as np
from flwr.app import Array, ArrayRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp.strategy import Strategy

from server_app.replies import ClientUpdate, Weights
from server_app.strategies.base import WEIGHT, StrategySettings
from task import wire


class Aggregator:
    """Feeds accepted updates to a Flower strategy in a fixed order.

    The strategy sees one message per client with floating-point arrays only, sorted by client, so
    that sums have the same bits whatever order the replies came in. Integer buffers (batch norm's
    batch counter) stay integers: the largest count is kept.
    """

    def __init__(self, settings: StrategySettings) -> None:
        self._settings = settings
        self._strategy: Strategy = settings.build()

    def aggregate(self, server_round: int, updates: Sequence[ClientUpdate]) -> Weights:
        """The new global weights, in the clients' names and dtypes.

        Args:
            server_round: the round, from 1.
            updates: accepted ones, at least one.
        """
        ordered = sorted(updates, key=lambda update: update.client)
        arrays, _ = self._strategy.aggregate_train(
            server_round, [self._message(update) for update in ordered]
        )
        if arrays is None:
            raise RuntimeError("the strategy returned no weights")
        return {
            name: arrays[name].numpy().astype(first.dtype)
            if is_float(first)
            else np.asarray(np.max([update.weights[name] for update in ordered], axis=0))
            for name, first in ordered[0].weights.items()
        }

    def _message(self, update: ClientUpdate) -> Message:
        floats = {name: Array(value) for name, value in update.weights.items() if is_float(value)}
        weight = MetricRecord({WEIGHT: self._settings.weight(update.examples)})
        content = RecordDict({wire.ARRAYS: ArrayRecord(floats), wire.METRICS: weight})
        return Message(content, dst_node_id=update.client, message_type=MessageType.TRAIN)


def is_float(value: np.ndarray) -> bool:
    """Whether an array is of a floating-point type."""
    return bool(np.issubdtype(value.dtype, np.floating))
