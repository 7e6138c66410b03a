"""The next global weights, computed from a round's updates by a Flower strategy."""

import logging
from collections.abc import Iterable, Iterator
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
from torch import Tensor, nn

from server_app.aggregation.accumulator import UpdateAccumulator
from server_app.aggregation.strategies.base import WEIGHT, StrategySettings
from server_app.aggregation.weights import (
    Weights,
    from_record,
    from_tensors,
    to_record,
    to_tensors,
)
from task.models.layers.norm import statistics_names
from task.optim.parameters import trained_parameters
from task.seeding import repeatable_bytes, secret_bytes

ARRAYS, METRICS, ALIKE = "arrays", "metrics", MetricRecord({WEIGHT: 1.0})


class Aggregator:
    """Passes a round's updates to a Flower strategy, and rounds its answer once.

    A strategy that needs each update gets one message for each client, ordered by client, with the
    difference between its weights and the global ones. Any other strategy gets one message with
    the clients' weighted mean, float64. The parts of a model are treated differently:

    * trained parameters pass through the strategy;
    * batch-norm statistics pass through it, too, if it needs each update, because a client is
      accepted with both or with neither; otherwise they are averaged. Variances stay at least 0;
    * frozen parameters do not change;
    * of integers, such as batch norm's counters, the largest is kept;
    * what stays with the clients is not among the weights.

    Args:
        settings: the strategy.
        model: defines which weights are parameters and which are buffers.
        participants: the number of clients that a round samples.
        seed: makes noise follow from it and the round, for studies; None for secret noise.
        moments: whether clients send second moments in place of running variances; see
            `task.models.layers.norm.with_second_moments`.

    Attributes:
        settings: the strategy.
    """

    def __init__(
        self,
        settings: StrategySettings,
        model: nn.Module,
        participants: int,
        seed: int | None,
        moments: bool = False,
    ) -> None:
        self.settings = settings
        with without_sampling_warning():
            self._strategy: Strategy = settings.build(participants)
        self._trained = list(trained_parameters(model))
        sent = model.state_dict()
        buffers = {name: value for name, value in model.named_buffers() if name in sent}
        self._statistics = [name for name, v in buffers.items() if v.is_floating_point()]
        self._counters = [name for name, v in buffers.items() if not v.is_floating_point()]
        self._seed, self._moments = seed, moments

    def state(self) -> Weights:
        """Return the strategy's state, by attribute or ``attribute/key`` of its entries."""
        found: Weights = {}
        for name in self.settings.state_attributes:
            value = getattr(self._strategy, name)
            if isinstance(value, dict | list):
                items = value.items() if isinstance(value, dict) else enumerate(value)
                found |= {f"{name}/{key}": np.asarray(part) for key, part in items}
            elif value is not None:
                found[name] = np.asarray(value)
        return found

    def restore(self, state: Weights) -> None:
        """Continue from what `state` returned."""
        for name in self.settings.state_attributes:
            head, current = f"{name}/", getattr(self._strategy, name)
            parts = {k.removeprefix(head): v for k, v in state.items() if k.startswith(head)}
            if name in state:
                value = state[name]
                setattr(self._strategy, name, value if value.ndim else value.item())
            elif isinstance(current, dict):
                setattr(self._strategy, name, parts)
            elif all(key.isdigit() for key in parts):
                listed = [parts[key] for key in sorted(parts, key=int)]
                setattr(self._strategy, name, listed or None)
            else:
                setattr(self._strategy, name, parts)

    def aggregate(
        self, server_round: int, accumulator: UpdateAccumulator, grid: Grid
    ) -> dict[str, Tensor]:
        """Return the new global weights, in the names, order and types of the current ones.

        Args:
            server_round: the round, from 1.
            accumulator: the accepted updates, at least as many as the strategy needs. What it
                holds of each client is taken out.
            grid: the run's.
        """
        before, mean = from_tensors(accumulator.before), from_tensors(accumulator.mean())
        kinds = self._trained, self._statistics, self._counters
        trained, statistics, counters = ([n for n in names if n in before] for names in kinds)
        ask = partial(self._ask, server_round, grid)
        if not self.settings.needs_each_update:
            start: Weights = {name: before[name].astype(np.float64) for name in trained}
            new = {name: mean[name] for name in statistics}
            new |= ask(start, [to_record({name: mean[name] for name in trained})])
        else:
            names = trained + statistics
            start = {name: np.zeros_like(before[name]) for name in names}
            each = (
                to_record({name: moved[name].numpy() for name in names})
                for moved in accumulator.take_moved()
            )
            new = {
                name: before[name] + value.astype(np.float64)
                for name, value in ask(start, each).items()
            }
        for running_mean, variance in statistics_names(statistics):
            if self._moments:  # the law of total variance
                moved = np.subtract(new[running_mean], before[running_mean], dtype=np.float64)
                new[variance] = np.subtract(new[variance], np.square(moved))
            new[variance] = np.maximum(new[variance], 0)
        new |= {name: mean[name] for name in counters}
        return to_tensors(
            {
                name: np.array(new.get(name, value), dtype=value.dtype)
                for name, value in before.items()
            }
        )

    def _ask(
        self, server_round: int, grid: Grid, start: Weights, updates: Iterable[ArrayRecord]
    ) -> Weights:
        """Return the strategy's result for a round's updates, which have equal weights."""
        messages = [
            Message(
                RecordDict({ARRAYS: self.settings.prepare_update(update), METRICS: ALIKE}),
                dst_node_id=place,
                message_type=MessageType.TRAIN,
            )
            for place, update in enumerate(updates)
        ]
        self.settings.prepare_round(self._strategy, len(messages))
        list(self._strategy.configure_train(server_round, to_record(start), ConfigRecord(), grid))
        source = secret_bytes
        if self._seed is not None:
            source = repeatable_bytes(self._seed, "aggregation", server_round)
        self.settings.set_noise_source(self._strategy, source)
        arrays, _ = self._strategy.aggregate_train(server_round, messages)
        if arrays is None:
            raise RuntimeError(f"{type(self._strategy).__name__} returned no weights")
        return from_record(arrays)


@contextmanager
def without_sampling_warning() -> Iterator[None]:
    """Silence Flower's warning that the strategy will not sample clients, which we do."""
    logger = logging.getLogger("flwr")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before
