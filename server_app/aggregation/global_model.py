"""The global model: its weights, and what changes them from round to round."""

import logging
from collections import Counter
from collections.abc import Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING

from flwr.serverapp import Grid
from torch import Tensor

from server_app.aggregation.accumulator import (
    Rebase,
    SumSettings,
    UpdateAccumulator,
    as_sent,
    no_problem,
)
from server_app.aggregation.aggregator import Aggregator
from server_app.aggregation.client_weights import ClientWeights
from server_app.aggregation.guards.base import guard_of
from server_app.aggregation.strategies.base import strategy_of
from server_app.aggregation.weights import Weights, from_tensors, to_tensors
from server_app.config.experiment import Experiment
from server_app.rounds.errors import RunFailedError
from server_app.runs.checkpoint import ModelState
from task.errors import DIVERGED
from task.exact_sum import new_sum
from task.given_weights import given_weights
from task.methods.base import Contribution
from task.models.base import OwnInput
from task.optim.parameters import trained_parameters
from task.protocol.tensors import PackedTensors
from task.registry import named
from task.tensors import Tensors, is_finite
from task.training.worker import Worker

if TYPE_CHECKING:
    from task.protocol.number_formats import UpdateFormat

OTHER_IMAGES = (
    "the network was made for images of {0.image_size} pixels with {0.interpolation} interpolation;"
    " here they have data.image_size={1.image_size} and data.interpolation={1.interpolation}"
)
FORMAT = "task.protocol.number_formats:UpdateFormat"
GIVEN = "server_app.aggregation.starting_weights:starting_weights"
WEIGHTS, STRATEGY, SERVER_UPDATE = "weights", "strategy", "server_update"  # the arrays' kinds

logger = logging.getLogger("univarfl")


class GlobalModel:
    """The global weights, changed by the aggregation and the method's server update.

    What stays with the clients is not among them.

    Args:
        experiment: the experiment.
        worker: the server's.
        clients: their sizes and weights.

    Attributes:
        clients: their sizes and weights.
        last_accepted: by client, the round of its last accepted update; 0 for none. It stores
            only the clients that have one.
        notes: what was left out of the file that the run starts from.
        buffered: whether a round takes updates as they arrive.
        min_updates: the number of accepted updates that a round needs to change the weights.
    """

    def __init__(self, experiment: Experiment, worker: Worker, clients: ClientWeights) -> None:
        strategy = strategy_of(experiment)
        self._strategy_name = experiment.strategy["name"]
        self._aggregator = Aggregator(
            strategy,
            worker.model,
            experiment.participants,
            experiment.seed if experiment.privacy.reproducible else None,
            moments=experiment.network().statistics == "moments",
        )
        self.min_updates = strategy.min_updates()
        self._weights = dict(worker.initial_weights())
        self.notes: list[str] = []
        self._frozen = worker.personal.frozen
        given = given_weights(experiment.model)
        if given and (own := experiment.network().own_input()):
            source = experiment.source()
            images = OwnInput(source.image_size, source.interpolation)
            if own != images:
                self.notes.append(OTHER_IMAGES.format(own, images))
        if given and not self._frozen:  # otherwise the worker has read the file
            self._weights, notes = named(GIVEN)(given, self._weights)
            self.notes += notes
        trained = frozenset(trained_parameters(worker.model)) & self._weights.keys()
        server = worker.method.server({n: v for n, v in self._weights.items() if n in trained})
        self._server_update = server
        self._format: UpdateFormat | None = None
        if experiment.update.rounded:
            self._format = named(FORMAT)(experiment.update.format, trained)
        self.last_accepted: Counter[int] = Counter()
        self.buffered, self.clients = strategy.buffered, clients
        self._sum_settings = SumSettings(
            guard_of(experiment),
            trained,
            worker.method.reported_terms(),
            each=strategy.needs_each_update,
            mean=not strategy.needs_each_update or server is not None,
            problem_with=server.problem_with if server else no_problem,
            new_sum=partial(new_sum, experiment.secure),
            read=self._format.received if self._format else as_sent,
        )

    @property
    def weights(self) -> dict[str, Tensor]:
        """The current weights, on the CPU."""
        return self._weights

    @weights.setter
    def weights(self, weights: dict[str, Tensor]) -> None:
        self._weights = weights
        self.__dict__.pop("packed_weights", None)

    @property
    def whole(self) -> dict[str, Tensor]:
        """The current weights with what is frozen, which no message has."""
        return {**self._frozen, **self._weights}

    @cached_property
    def packed_weights(self) -> PackedTensors:
        """The current weights as they are sent."""
        return PackedTensors.of(self._weights)

    @property
    def broadcast(self) -> Tensors:
        """What the method's server update sends to every client; empty if there is none."""
        return self._server_update.broadcast() if self._server_update else {}

    def accumulator(
        self, sampled: Sequence[int], keep: bool, rebase: Rebase | None = None
    ) -> UpdateAccumulator:
        """Return an empty accumulator for a round of these clients.

        Args:
            sampled: the clients; others are added with `UpdateAccumulator.expect`.
            keep: whether it keeps each client's model.
            rebase: see `UpdateAccumulator`.
        """
        shares = self.clients.shares(sampled)
        examples = {client: self.clients.sizes[client] for client in sampled}
        return UpdateAccumulator(
            self.weights, self.broadcast, shares, examples, self._sum_settings, keep, rebase
        )

    @property
    def request_bytes(self) -> int:
        """The size of what one client receives in a round: the model and the broadcast."""
        sent = [*self.weights.values(), *self.broadcast.values()]
        return sum(value.nbytes for value in sent)

    @property
    def reply_bytes(self) -> int:
        """The size of what one client sends in a round: its update, and what the method adds."""
        if not self._format:
            return self.request_bytes
        extra = sum(value.nbytes for value in self.broadcast.values())
        return self._format.size(self.weights) + extra

    def state(self) -> ModelState:
        """Return all that the next round needs, for a checkpoint."""
        own = from_tensors(self._server_update.state) if self._server_update else {}
        clients = self.clients
        kinds = {
            WEIGHTS: from_tensors(self.weights),
            STRATEGY: self._aggregator.state(),
            SERVER_UPDATE: own,
        }
        arrays = {f"{kind}/{name}": v for kind, found in kinds.items() for name, v in found.items()}
        return ModelState(arrays, dict(self.last_accepted), clients.site_sizes, clients.known)

    def restore(self, state: ModelState) -> None:
        """Continue from what `state` returned."""
        kinds: dict[str, Weights] = {WEIGHTS: {}, STRATEGY: {}, SERVER_UPDATE: {}}
        for key, value in state.arrays.items():
            kind, _, name = key.partition("/")
            kinds[kind][name] = value
        stored = to_tensors(kinds[WEIGHTS])
        self.weights = {name: stored[name] for name in self.weights}
        self._aggregator.restore(kinds[STRATEGY])
        if self._server_update:
            for name, tensor in to_tensors(kinds[SERVER_UPDATE]).items():
                self._server_update.state[name].copy_(tensor)
        self.last_accepted = Counter(state.last_accepted)
        self.clients.restore(state.site_sizes, state.known)

    def update(self, server_round: int, accumulator: UpdateAccumulator, grid: Grid) -> None:
        """Change the weights by a round's accepted updates, if there are enough of them.

        Raises:
            RunFailedError: the new weights would not be finite; the weights are unchanged.
        """
        accepted = accumulator.accepted
        if len(accepted) < self.min_updates:
            if accepted:
                logger.warning(
                    "round %d: strategy=%s needs %d updates and got %d; the global model is "
                    "unchanged",
                    server_round, self._strategy_name, self.min_updates, len(accepted),
                )  # fmt: skip
            return
        before = self.weights
        after = self._aggregator.aggregate(server_round, accumulator, grid)
        if self._server_update:
            share, known = self.clients.of_server_update(accepted)
            clients = Contribution(share, accumulator.mean(), accumulator.mean_extra(), known)
            after = self._server_update.update(before, after, clients)
        for name, value in after.items():
            if not is_finite(value):
                raise RunFailedError(
                    f"round {server_round}: {DIVERGED}: strategy={self._strategy_name} made {name} "
                    "infinite or NaN; the checkpoint holds the model of the round before"
                )
        self.weights = dict(after)
        self.clients.remember_sites()
        for client in accepted:  # a client keeps its state under the round of its request
            behind = accumulator.updates[client].staleness or 0
            self.last_accepted[client] = server_round - behind
