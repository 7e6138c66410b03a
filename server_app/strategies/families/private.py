"""Strategies that are differentially private."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from flwr.app import ArrayRecord
from flwr.serverapp.strategy import Strategy

from server_app.strategies.base import StrategySettings
from server_app.weights import from_record, to_record
from task.errors import refuse

UNIT = "one client's updates, against zeros in their place"
NOT_ACCOUNTED = "not accounted"
OUTSIDE = (
    "the seed, which clients and the record know: whoever has it can take the noise off",
    "losses, accuracies and numbers of images, which clients report without noise",
    "who took part, who failed and why, and how long each took",
    "the server, which sees each client's own update",
)


@dataclass
class PrivateSettings(StrategySettings):
    """Central differential privacy: updates are clipped and noise joins their mean, on the server.

    Clients weigh alike. A client that failed is left out of the mean, and the noise grows with the
    clipped update's part in it: its deviation is noise_multiplier * clipping norm / those accepted,
    so that each round costs the same. The noise follows from the experiment's seed and the round,
    so that a run repeats. Clients are told that seed, and the record holds it: whoever knows it can
    take the noise off. This is for studying what privacy costs, and does not yet protect anybody.
    Losses and counts in the record have no noise either.

    Attributes:
        noise_multiplier: the noise's deviation over the sensitivity; 0 clips alone.
    """

    private: ClassVar = True

    noise_multiplier: float

    def __post_init__(self) -> None:
        if self.noise_multiplier < 0:
            refuse(self, "noise_multiplier", "must be at least 0")

    def spent(self, rounds: int) -> dict[str, Any]:
        account = self.account(rounds)
        return {"unit": UNIT, "rounds": rounds, **account, "outside": list(OUTSIDE)}

    def account(self, rounds: int) -> dict[str, Any]:
        """``epsilon`` after so many rounds, `NOT_ACCOUNTED` where it cannot be told, and why."""
        return {"epsilon": NOT_ACCOUNTED, "why": "no accountant covers this strategy"}

    def prepare(self, moved: ArrayRecord) -> ArrayRecord:
        """Move the first number by next to nothing.

        Flower divides by the length of an update: one of length 0, from a client that sends back
        what it was sent, would end the run.
        """
        weights = from_record(moved)
        name, first = next(iter(weights.items()))
        nudge = np.zeros_like(first)
        nudge.flat[0] = 1e-9
        return to_record({**weights, name: np.add(first, nudge)})

    def ready(self, strategy: Strategy, updates: int) -> None:
        assert hasattr(strategy, "num_sampled_clients")
        strategy.num_sampled_clients = updates


@dataclass
class FixedNormSettings(PrivateSettings):
    """Updates are clipped to one norm.

    Attributes:
        clipping_norm: the longest update, in the Euclidean norm over all trained parameters.
    """

    clipping_norm: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.clipping_norm <= 0:
            refuse(self, "clipping_norm", "must be above 0")
