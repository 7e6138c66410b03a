"""Strategies with differential privacy."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from flwr.app import ArrayRecord
from flwr.serverapp.strategy import Strategy

from server_app.aggregation.strategies.base import StrategySettings
from server_app.aggregation.weights import from_record, to_record
from task.errors import refuse
from task.privacy.noise import add_gaussian_noise
from task.seeding import ByteSource, secret_bytes

UNIT = "all updates of one client, compared with zeros in their place"
NOT_ACCOUNTED = "not accounted"
OUTSIDE = (
    "losses, accuracies and numbers of images, which clients report without noise",
    "which clients took part or failed, the reasons, and the training times",
    "the server, which sees each client's update",
    "the part of the model that each client keeps, with a method that personalises",
)


class NoisyStrategy:
    """Adds our noise in place of Flower's, which NumPy's seeded generator makes.

    It comes before a strategy of Flower among the bases of a class.

    Attributes:
        random_bytes: the source of this round's noise.
    """

    random_bytes: ByteSource = staticmethod(secret_bytes)
    noise_multiplier: float
    clipping_norm: float
    num_sampled_clients: int

    def _add_noise_to_aggregated_arrays(self, aggregated: ArrayRecord) -> ArrayRecord:
        deviation = self.noise_multiplier * self.clipping_norm / self.num_sampled_clients
        return to_record(
            {
                name: add_gaussian_noise(value, deviation, self.random_bytes)
                for name, value in from_record(aggregated).items()
            }
        )


@dataclass
class PrivateSettings(StrategySettings):
    """Settings of central differential privacy: clipped updates, noise on their mean.

    The noise comes from the operating system, so a run cannot be repeated bit for bit. With
    ``privacy.reproducible=true`` it follows from the seed, and the run protects nobody.

    WARNING: the server sees each update without noise, and the record has losses and counts without
    noise. Only the model is protected, against people who see nothing but the model.

    All clients have equal weight. The standard deviation of the noise is noise_multiplier *
    clipping norm / number of accepted updates. So each round costs the same, also if clients fail.

    Attributes:
        noise_multiplier: the noise's standard deviation divided by the sensitivity, at least 0; 0
            clips without noise.
    """

    private: ClassVar = True

    noise_multiplier: float

    def __post_init__(self) -> None:
        if self.noise_multiplier < 0:
            refuse(self, "noise_multiplier", "must be at least 0")

    def privacy_spent(self, rounds: int) -> dict[str, Any]:
        account = self.account_privacy(rounds)
        return {"unit": UNIT, "rounds": rounds, **account, "outside": list(OUTSIDE)}

    def account_privacy(self, rounds: int) -> dict[str, Any]:
        """Return ``epsilon`` after `rounds` rounds, or `NOT_ACCOUNTED` and the reason (``why``)."""
        return {"epsilon": NOT_ACCOUNTED, "why": "no accountant covers this strategy"}

    def prepare_update(self, update: ArrayRecord) -> ArrayRecord:
        """Add 1e-9 to the first number of the update.

        Flower divides by the norm of an update, so a norm of 0 would end the run. A client that
        returns the global weights unchanged sends such an update.
        """
        arrays = from_record(update)
        name, first = next(iter(arrays.items()))
        offset = np.zeros_like(first)
        offset.flat[0] = 1e-9
        return to_record({**arrays, name: np.add(first, offset)})

    def prepare_round(self, strategy: Strategy, updates: int) -> None:
        assert isinstance(strategy, NoisyStrategy)
        strategy.num_sampled_clients = updates

    def set_noise_source(self, strategy: Strategy, random_bytes: ByteSource) -> None:
        assert isinstance(strategy, NoisyStrategy)
        strategy.random_bytes = random_bytes


@dataclass
class FixedNormSettings(PrivateSettings):
    """Settings of differential privacy with a fixed clipping norm.

    Attributes:
        clipping_norm: the largest L2 norm of an update over all trained parameters, above 0.
    """

    clipping_norm: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.clipping_norm <= 0:
            refuse(self, "clipping_norm", "must be above 0")
