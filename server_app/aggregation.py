"""From the clients' models to the next global one, through an inner Flower strategy."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import numpy as np
from flwr.app import (
    ArrayRecord,
    ConfigRecord,
    Message,
    MessageType,
    MetricRecord,
    RecordDict,
)
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy
from torch import nn

from server_app.intake import Intake
from server_app.strategies.base import WEIGHT, StrategySettings
from server_app.weights import Weights, from_record, to_record
from task import wire
from task.methods.base import trained_parameters
from task.seeding import derived_seed

METRICS, ALIKE = "metrics", MetricRecord({WEIGHT: 1.0})


class Aggregator:
    """Feeds a round's updates to a Flower strategy; its answer makes the next global weights.

    A linear strategy sees one message, the clients' weighted mean in float64; any other sees one
    message per client, sorted by client, that holds how far it moved. In each case the answer is
    rounded once. What is in a model goes its own way:

    * trained parameters go through the strategy;
    * batch-norm statistics go with them where each client is looked at, since it is trusted with
      both or with neither, and are averaged elsewhere; variances stay at 0 or above;
    * frozen parameters stay as they are;
    * integers (batch norm's counter) stay integers: the largest is kept.

    Args:
        settings: the strategy.
        model: tells which part of the weights is what.
        participants: how many clients a round samples.
        seed: the experiment's; the strategy's own random draws follow from it and the round.

    Attributes:
        settings: the strategy.
    """

    def __init__(
        self, settings: StrategySettings, model: nn.Module, participants: int, seed: int
    ) -> None:
        self.settings = settings
        with flower_silent():
            self._strategy: Strategy = settings.build(participants)
        self._trained = list(trained_parameters(model))
        buffers = dict(model.named_buffers())
        self._statistics = [name for name, v in buffers.items() if v.is_floating_point()]
        self._counters = [name for name, v in buffers.items() if not v.is_floating_point()]
        self._seed = seed

    def state(self) -> Weights:
        """What the strategy remembers: numbers and arrays by attribute and, in those, by name."""
        found: Weights = {}
        for name in self.settings.remembers:
            value = getattr(self._strategy, name)
            if isinstance(value, dict | list):
                items = value.items() if isinstance(value, dict) else enumerate(value)
                found |= {f"{name}/{key}": np.asarray(part) for key, part in items}
            elif value is not None:
                found[name] = np.asarray(value)
        return found

    def restore(self, state: Weights) -> None:
        """Put back what `state` gave."""
        for name in self.settings.remembers:
            parts = {k.removeprefix(f"{name}/"): v for k, v in state.items() if k.startswith(name)}
            if name in parts:
                setattr(self._strategy, name, float(parts[name]))
            elif all(key.isdigit() for key in parts):
                listed = [parts[key] for key in sorted(parts, key=int)]
                setattr(self._strategy, name, listed or None)
            else:
                setattr(self._strategy, name, parts)

    def aggregate(self, server_round: int, intake: Intake, grid: Grid) -> Weights:
        """The new global weights, in the names, order and dtypes of the present ones.

        Args:
            server_round: the round, from 1.
            intake: the accepted updates, as many as the strategy needs.
            grid: the run's.
        """
        before, mean = intake.before, intake.mean()
        ask = partial(self._ask, server_round, grid)
        if self.settings.linear:
            start: Weights = {name: before[name].astype(np.float64) for name in self._trained}
            new = {name: mean[name] for name in self._statistics}
            new |= ask(start, [to_record({name: mean[name] for name in self._trained})])
        else:
            names = self._trained + self._statistics
            start = {name: np.zeros_like(before[name]) for name in names}
            each = [
                ArrayRecord({name: intake.moved[client][name] for name in names})
                for client in sorted(intake.accepted)
            ]
            new = {
                name: before[name] + value.astype(np.float64)
                for name, value in ask(start, each).items()
            }
        for name in self._statistics:
            if name.endswith("running_var"):
                new[name] = np.maximum(new[name], 0)
        new |= {name: mean[name] for name in self._counters}
        return {
            name: np.asarray(new.get(name, value), dtype=value.dtype)
            for name, value in before.items()
        }

    def _ask(
        self, server_round: int, grid: Grid, start: Weights, updates: Sequence[ArrayRecord]
    ) -> Weights:
        """What Flower's strategy makes of a round's updates, which all weigh alike."""
        self.settings.ready(self._strategy, len(updates))
        list(self._strategy.configure_train(server_round, to_record(start), ConfigRecord(), grid))
        messages = [
            Message(
                RecordDict({wire.ARRAYS: self.settings.prepare(update), METRICS: ALIKE}),
                dst_node_id=place,
                message_type=MessageType.TRAIN,
            )
            for place, update in enumerate(updates)
        ]
        with global_noise(self._seed, server_round):
            arrays, _ = self._strategy.aggregate_train(server_round, messages)
        if arrays is None:
            raise RuntimeError(f"{type(self._strategy).__name__} returned no weights")
        return from_record(arrays)


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
