"""What a round results in, and what is called with it."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from server_app.aggregation.client_update import ClientUpdate
from task.tensors import Tensors
from task.training.evaluation import Metrics, Score


@dataclass(frozen=True)
class RoundModels:
    """The models of one round, if they are kept.

    Attributes:
        received: the global weights that the clients started from.
        clients: by client, its trained model, if it was accepted.
        aggregated: the global weights after the round.
    """

    received: Tensors
    clients: Mapping[int, Tensors]
    aggregated: Tensors


@dataclass(frozen=True)
class RoundResult:
    """A complete round.

    Attributes:
        round: its number, from 1.
        rounds: the number of rounds of the run.
        updates: the outcome of each sampled client, by client.
        scores: by split (``train``, ``validation``, ``test``) and metric.
        test: every metric of the global model on the test set; empty if it was not scored.
        clients: each client's validation score; empty if the server does not see it.
        models: the round's models; None if they are not kept.
        seconds: the duration of the run's rounds up to and with this one.
        last_models: after the last round, each accepted client's model, if the stage after it needs
            them.
    """

    round: int
    rounds: int
    updates: Sequence[ClientUpdate]
    scores: Mapping[str, Mapping[str, float]]
    test: Metrics
    clients: Mapping[int, Score]
    models: RoundModels | None
    seconds: float
    last_models: Mapping[int, Tensors] | None = None


class Callback(ABC):
    """Called after each round; callbacks are called in the order in which they are listed."""

    @abstractmethod
    def after_round(self, result: RoundResult) -> None:
        """Take a round's result."""
