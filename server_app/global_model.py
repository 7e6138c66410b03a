"""The global model: its weights, and all that moves them from round to round."""

import logging
from collections.abc import Sequence

import numpy as np
from flwr.app import ArrayRecord, MessageType
from flwr.serverapp import Grid

from server_app.aggregation import Aggregator
from server_app.checkpoint import ModelState
from server_app.experiment import Experiment
from server_app.failures import RunFailedError
from server_app.intake import Intake
from server_app.weights import Weights, from_tensors, pack, to_tensors
from task import wire
from task.averaging import shares_of
from task.methods.base import Contribution, trained_parameters
from task.worker import Worker

# In models: what a round takes anyway, and for each update that a guard or that a strategy looks at
# (`python -m tests.benchmarks.scale memory`; Krum's is the most).
A_ROUND, EACH_LINEAR, EACH = 8.0, 1.5, 4.2
WEIGHTS, STRATEGY, HALF = "weights", "strategy", "half"

logger = logging.getLogger("univarfl")


class GlobalModel:
    """The global weights, moved by the aggregation and the method's server half.

    Args:
        experiment: the experiment.
        worker: the server's.
        sizes: by client, its training images; looked at each round, as sites come late, and filled
            in by `restore` for those that are not back.

    Attributes:
        weights: as they are now.
        last_accepted: by client, the round whose update last moved them; 0 before the first.
        least_updates: how many accepted updates a round needs to move them.
    """

    def __init__(self, experiment: Experiment, worker: Worker, sizes: list[int]) -> None:
        strategy = experiment.aggregation()
        self._strategy_name = experiment.strategy["name"]
        self._aggregator = Aggregator(
            strategy, worker.model, experiment.participants, experiment.seed
        )
        self.least_updates = strategy.least_updates()
        initial = worker.initial_weights()
        self.weights = from_tensors(initial)
        self._trained = frozenset(trained_parameters(worker.model))
        trained = {name: value for name, value in initial.items() if name in self._trained}
        self._server_half = worker.method.server(trained)
        self.last_accepted = [0] * experiment.num_clients
        self._guard = experiment.guardian()
        self._linear, self._participants = strategy.linear, experiment.participants
        self._keeps = experiment.watch.models_every is not None
        self._sizes, self._weight = sizes, strategy.weight
        self._sizes_before = [0] * experiment.num_clients

    @property
    def broadcast(self) -> Weights:
        """What the method's server half sends to everybody; empty when there is none."""
        return from_tensors(self._server_half.broadcast()) if self._server_half else {}

    def intake(self, sampled: Sequence[int], keep: bool) -> Intake:
        """What takes in a round's updates from these clients, and keeps their models or not."""
        return Intake(
            self.weights,
            self.broadcast,
            shares_of({client: self._weight(self._sizes[client]) for client in sampled}),
            {client: self._sizes[client] for client in sampled},
            self._guard,
            self._trained,
            each=not self._linear,
            mean=self._linear or self._server_half is not None,
            keep=keep,
        )

    @property
    def bytes_a_round(self) -> int:
        """About how much memory a round takes here: updates that are looked at are all kept."""
        model = sum(value.nbytes for value in self.weights.values())
        looks = self._guard.looks or self._keeps
        kept = EACH if not self._linear else EACH_LINEAR if looks else 0.0
        return int(model * (A_ROUND + kept * self._participants))

    @property
    def reply_bytes(self) -> int:
        """The size of one client's reply: a model, and an answer as large as the broadcast."""
        sent = [*self.weights.values(), *self.broadcast.values()]
        return sum(value.nbytes for value in sent)

    def state(self) -> ModelState:
        """All that the next round needs, to be kept."""
        half = from_tensors(self._server_half.state) if self._server_half else {}
        kinds = {WEIGHTS: self.weights, STRATEGY: self._aggregator.state(), HALF: half}
        arrays = {f"{kind}/{name}": v for kind, found in kinds.items() for name, v in found.items()}
        return ModelState(arrays, list(self.last_accepted), list(self._sizes_before))

    def restore(self, state: ModelState) -> None:
        """Put back what `state` gave."""
        kinds: dict[str, Weights] = {WEIGHTS: {}, STRATEGY: {}, HALF: {}}
        for key, value in state.arrays.items():
            kind, _, name = key.partition("/")
            kinds[kind][name] = value
        self.weights = {name: kinds[WEIGHTS][name] for name in self.weights}
        self._aggregator.restore(kinds[STRATEGY])
        if self._server_half:
            for name, tensor in to_tensors(kinds[HALF]).items():
                self._server_half.state[name].copy_(tensor)
        self.last_accepted = list(state.last_accepted)
        self._sizes_before = list(state.train_sizes)
        found = zip(self._sizes, state.train_sizes, strict=True)
        self._sizes[:] = [now or before for now, before in found]

    def records(self, kind: str) -> dict[str, ArrayRecord]:
        """What a client needs for a message of a kind, as Flower sends it."""
        found = {wire.ARRAYS: pack(self.weights)}
        if kind == MessageType.TRAIN and (broadcast := self.broadcast):
            found[wire.BROADCAST] = pack(broadcast)
        return found

    def update(self, server_round: int, intake: Intake, grid: Grid) -> None:
        """Move the weights by a round's accepted updates, if they are enough.

        Raises:
            RunFailedError: they would not be finite any more; they stay as they were.
        """
        accepted = len(intake.accepted)
        if accepted < self.least_updates:
            if accepted:
                logger.warning(
                    "round %d: strategy=%s needs %d updates and got %d; the global model stays",
                    server_round, self._strategy_name, self.least_updates, accepted,
                )  # fmt: skip
            return
        before = self.weights
        after = self._aggregator.aggregate(server_round, intake, grid)
        if self._server_half:
            counts = list(map(self._weight, self._sizes))
            share = sum(counts[client] for client in sorted(intake.accepted)) / sum(counts)
            known = sum(map(self._weight, self._sizes_before)) / sum(counts)
            mean, beside = to_tensors(intake.mean()), intake.mean_extra()
            clients = Contribution(share, mean, beside, known)
            new = self._server_half.update(to_tensors(before), to_tensors(after), clients)
            after = from_tensors(new)
        for name, value in after.items():
            if not np.isfinite(value).all():
                raise RunFailedError(
                    f"round {server_round}: strategy={self._strategy_name} made {name} of numbers "
                    "that are not finite; the model of the round before is in the checkpoint"
                )
        self.weights, self._sizes_before = after, list(self._sizes)
        for client in intake.accepted:
            self.last_accepted[client] = server_round
