"""The server's part of a local method around one of Flower's strategies."""

import logging
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import univarfl.application  # noqa: F401

# isort: split

import torch
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy
from torch import Tensor

from task.errors import ProtocolError
from task.methods.base import Contribution, ServerUpdate
from task.protocol.tensors import check_tensors
from task.tensors import Tensors
from univarfl.local_training import ARRAYS, BROADCAST, EXAMPLES, EXTRA, METRICS, LocalTraining

logger = logging.getLogger("univarfl")


class Sent(NamedTuple):
    """What one client sent.

    Attributes:
        examples: its rows.
        weights: its trained weights, by the names of the divided network.
        extra: what it sent to the method's server part.
    """

    examples: int
    weights: Tensors
    extra: Tensors


class MethodStrategy(Strategy):
    """One of Flower's strategies, with the server's part of a local method around it.

    For example::

        training = LocalTraining(network, "scaffold")
        MethodStrategy(FedAvg(), training).start(grid, ArrayRecord(training.initial_weights()))

    A method whose clients exchange nothing but the model, such as FedProx and UniVarFL, does not
    need it. The strategy must move to a mean of the models weighted by ``num-examples``.

    Args:
        strategy: what samples and aggregates.
        training: with the method.
    """

    def __init__(self, strategy: Strategy, training: LocalTraining) -> None:
        self._strategy, self._training = strategy, training
        self._part: ServerUpdate | None = None
        self._before: dict[str, Tensor] = {}
        self._nodes = 0

    def summary(self) -> None:
        self._strategy.summary()

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        weights = arrays.to_torch_state_dict()
        if not self._before:
            self._part = self._training.server_part(weights)
        self._before = self._training.our_names(weights)
        self._nodes = len(list(grid.get_node_ids()))
        messages = list(self._strategy.configure_train(server_round, arrays, config, grid))
        if self._part and (broadcast := self._part.broadcast()):
            for message in messages:
                message.content[BROADCAST] = ArrayRecord(dict(broadcast))
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        usable: list[Message] = []
        others: list[Message] = []
        sent: list[Sent] = []
        for reply in replies:
            try:
                if self._part and not reply.has_error():
                    sent.append(self._taken_out(reply.content, self._part))
            except (EOFError, KeyError, ProtocolError, TypeError, ValueError) as error:
                logger.warning("round %d: a reply is left out: %s", server_round, error)
                continue
            (others if reply.has_error() else usable).append(reply)
        arrays, metrics = self._strategy.aggregate_train(server_round, [*usable, *others])
        if arrays is None or not sent or self._part is None:
            return arrays, metrics
        share = min(1.0, len(sent) / max(1, self._nodes))
        weights = mean([(each.examples, each.weights) for each in sent])
        extra = mean([(each.examples, each.extra) for each in sent])
        after = self._training.our_names(arrays.to_torch_state_dict())
        moved = self._part.update(self._before, after, Contribution(share, weights, extra, 1.0))
        return ArrayRecord(self._training.own_names(moved)), metrics

    def _taken_out(self, content: RecordDict, part: ServerUpdate) -> Sent:
        """Return what a client sent; what is for the method is removed from its reply.

        Raises:
            KeyError, ProtocolError: it has not what it needs, or this cannot be used.
        """
        record = content.pop(EXTRA, None)
        extra = record.to_torch_state_dict() if isinstance(record, ArrayRecord) else {}
        check_tensors(extra, part.broadcast())
        if problem := part.problem_with(extra):
            raise ProtocolError(problem)
        weights = self._training.our_names(content.array_records[ARRAYS].to_torch_state_dict())
        examples = content.metric_records[METRICS][EXAMPLES]
        if not isinstance(examples, int) or examples < 1:
            raise ProtocolError(f"{EXAMPLES} is not a whole number above 0")
        return Sent(examples, weights, extra)

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        return self._strategy.configure_evaluate(server_round, arrays, config, grid)

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        return self._strategy.aggregate_evaluate(server_round, replies)


def mean(values: Sequence[tuple[int, Tensors]]) -> dict[str, Tensor]:
    """Return the weighted mean of tensors by name, float64."""
    total, first = sum(weight for weight, _ in values), values[0][1]
    found = {name: torch.zeros_like(value, dtype=torch.float64) for name, value in first.items()}
    for weight, tensors in values:
        for name, value in tensors.items():
            found[name] += value.double() * (weight / total)
    return found
