"""From the clients' models to the next global one, through an inner Flower strategy."""

import logging
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from flwr.app import (
    ConfigRecord,
    Message,
    MessageType,
    MetricRecord,
    RecordDict,
)
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg, Strategy
from torch import nn

from server_app.replies import ClientUpdate
from server_app.strategies.base import COMMON, WEIGHT, StrategySettings, Wide
from server_app.weights import Weights, from_record, to_record
from task import wire
from task.methods.base import trained_parameters
from task.seeding import derived_seed


class Aggregator:
    """Feeds accepted updates to a Flower strategy in a fixed order.

    The strategy sees one message per client, sorted by client and in float64, so that sums have the
    same bits whatever order the replies came in, and are rounded once. What is in a model goes its
    own way:

    * trained parameters go through the strategy;
    * batch-norm statistics go with them or are averaged, as the strategy's trust has it
      (`StrategySettings.statistics_alike`); variances stay at 0 or above;
    * frozen parameters stay as they are;
    * integers (batch norm's counter) stay integers: the largest is kept.

    Args:
        settings: the strategy.
        model: tells which part of the weights is what.
        participants: how many clients a round samples.
        seed: the experiment's; the strategy's own random draws follow from it and the round.
    """

    def __init__(
        self, settings: StrategySettings, model: nn.Module, participants: int, seed: int
    ) -> None:
        self._settings = settings
        with flower_silent():
            self._strategy: Strategy = settings.build(participants)
            self._mean = FedAvg(**COMMON)
        self._trained = list(trained_parameters(model))
        buffers = dict(model.named_buffers())
        self._statistics = [name for name, v in buffers.items() if v.is_floating_point()]
        self._counters = [name for name, v in buffers.items() if not v.is_floating_point()]
        self._seed = seed

    def aggregate(
        self, server_round: int, before: Weights, updates: Sequence[ClientUpdate], grid: Grid
    ) -> Weights:
        """The new global weights, in the names, order and dtypes of the present ones.

        Args:
            server_round: the round, from 1.
            before: the global weights that the clients started from.
            updates: accepted ones, as many as the strategy needs.
            grid: the run's.
        """
        ordered = sorted(updates, key=lambda update: update.client)
        alike = self._settings.statistics_alike
        names = self._trained + (self._statistics if alike else [])
        start = to_record({name: before[name].astype(np.float64) for name in names})
        self._settings.ready(self._strategy, len(ordered))
        list(self._strategy.configure_train(server_round, start, ConfigRecord(), grid))
        with global_noise(self._seed, server_round):
            new = self._through(self._strategy, server_round, names, ordered)
        if not alike and self._statistics:
            new |= self._through(self._mean, server_round, self._statistics, ordered)
        for name in self._statistics:
            if name.endswith("running_var"):
                new[name] = np.maximum(new[name], 0)
        for name in self._counters:
            new[name] = np.max([update.weights[name] for update in ordered], axis=0)
        return {
            name: np.asarray(new.get(name, value), dtype=value.dtype)
            for name, value in before.items()
        }

    def _through(
        self,
        strategy: Strategy,
        server_round: int,
        names: Collection[str],
        updates: Sequence[ClientUpdate],
    ) -> Weights:
        messages = [self._message(update, names) for update in updates]
        arrays, _ = strategy.aggregate_train(server_round, messages)
        if arrays is None:
            raise RuntimeError(f"{type(strategy).__name__} returned no weights")
        return from_record(arrays)

    def _message(self, update: ClientUpdate, names: Collection[str]) -> Message:
        wide: Wide = {name: update.weights[name].astype(np.float64) for name in names}
        arrays = to_record(self._settings.prepare(wide))
        weight = MetricRecord({WEIGHT: self._settings.weight(update.examples)})
        content = RecordDict({wire.ARRAYS: arrays, wire.METRICS: weight})
        return Message(content, dst_node_id=update.client, message_type=MessageType.TRAIN)


@contextmanager
def flower_silent() -> Iterator[None]:
    """Keep back what Flower says, which here is that it will not sample: we do."""
    logger = logging.getLogger("flwr")
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = False


@contextmanager
def global_noise(seed: int, server_round: int) -> Iterator[None]:
    """Key NumPy's global generator, from which Flower draws DP noise, by (seed, round)."""
    outside = np.random.get_state()  # noqa: NPY002
    np.random.seed(derived_seed(seed, "aggregation", server_round) % 2**32)  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(outside)  # noqa: NPY002
