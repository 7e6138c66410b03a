"""What every aggregation strategy says of itself."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from flwr.serverapp.strategy import FedAdam, FedYogi, Strategy
from numpy.typing import NDArray

from task.errors import refuse

WEIGHT = "weight"

Wide = dict[str, NDArray[np.float64]]

# Who takes part is sampled before: with fraction_train=0 Flower's strategies note a round's weights
# and sample nobody.
COMMON: dict[str, Any] = {"fraction_train": 0.0, "weighted_by_key": WEIGHT}


@dataclass
class StrategySettings(ABC):
    """The settings of one strategy, and how to build it.

    Attributes:
        averages: whether it moves to a mean of the clients' models, which methods with a server
            half rely on.
        private: whether it is differentially private, so that nothing else in a model may tell of
            the data.
        statistics_alike: whether batch-norm statistics take the same way as the weights; if not,
            they are averaged.
    """

    averages: ClassVar[bool] = True
    private: ClassVar[bool] = False
    statistics_alike: ClassVar[bool] = True
    __pydantic_config__: ClassVar = {"extra": "forbid", "allow_inf_nan": False}

    @abstractmethod
    def build(self, participants: int) -> Strategy:
        """Flower's strategy for rounds of so many participants.

        It reads each client's weight from the metric `WEIGHT`.
        """

    def weight(self, examples: int) -> float:
        """How much a client with so many training images counts; only ratios matter."""
        return 1.0

    def least_updates(self) -> int:
        """The number of accepted clients below which a round changes nothing."""
        return 1

    def check(self, participants: int) -> None:  # noqa: B027  (most serve any number)
        """Refuse settings that rounds of so many participants cannot serve.

        Raises:
            ConfigError: there are too few.
        """

    def prepare(self, weights: Wide) -> Wide:
        """One client's arrays, in float64 and its own, as Flower's strategy is to see them."""
        return weights

    def ready(self, strategy: Strategy, updates: int) -> None:  # noqa: B027  (most are)
        """Make Flower's strategy ready for a round in which so many updates were accepted."""


@dataclass
class WeightedSettings(StrategySettings):
    """A strategy that starts from a weighted mean.

    Attributes:
        weighting: ``examples`` weighs client k by n_k/N (UniVarFL, section 6), ``uniform`` by 1/K
            (its Algorithm 1).
    """

    weighting: Literal["examples", "uniform"]

    def weight(self, examples: int) -> float:
        return float(examples) if self.weighting == "examples" else 1.0


@dataclass
class AdaptiveSettings(WeightedSettings):
    """Reddi et al., "Adaptive Federated Optimization", ICLR 2021: the mean update is a gradient.

    Attributes:
        server_lr: the server's learning rate, the paper's eta.
        tau: the degree of adaptivity; added to the root of the second moment.
    """

    statistics_alike: ClassVar = False

    server_lr: float
    tau: float

    def __post_init__(self) -> None:
        for field in ("server_lr", "tau"):
            if getattr(self, field) <= 0:
                refuse(self, field, "must be above 0")


@dataclass
class MomentSettings(AdaptiveSettings):
    """An adaptive strategy with decaying moments; Flower corrects Adam's for their start from 0.

    Attributes:
        optimiser: Flower's strategy.
        beta_1: decay of the first moment.
        beta_2: decay of the second moment.
    """

    optimiser: ClassVar[type[FedAdam | FedYogi]]

    beta_1: float
    beta_2: float

    def __post_init__(self) -> None:
        super().__post_init__()
        for field in ("beta_1", "beta_2"):
            if not 0 <= getattr(self, field) < 1:
                refuse(self, field, "must be from 0 to below 1")

    def build(self, participants: int) -> Strategy:
        return self.optimiser(
            **COMMON, eta=self.server_lr, tau=self.tau, beta_1=self.beta_1, beta_2=self.beta_2
        )


@dataclass
class RobustSettings(StrategySettings):
    """A strategy that bears some clients that send anything; every client counts alike.

    Distances are over weights and batch-norm statistics alike: a client is trusted with both or
    with neither.

    Attributes:
        num_malicious: f, how many of a round's participants it bears.
        participants_needed: by f: so many at least.
    """

    averages: ClassVar = False
    participants_needed: ClassVar[tuple[int, int]]

    num_malicious: int

    def __post_init__(self) -> None:
        if self.num_malicious < 0:
            refuse(self, "num_malicious", "must be at least 0")

    def least_updates(self) -> int:
        times, plus = self.participants_needed
        return times * self.num_malicious + plus

    def check(self, participants: int) -> None:
        if participants < self.least_updates():
            times, plus = self.participants_needed
            refuse(
                self,
                "num_malicious",
                f"needs {times} * num_malicious + {plus} = {self.least_updates()} participants a "
                f"round, and there are {participants}; lower it, or raise num_clients or rho",
            )


@dataclass
class PrivateSettings(StrategySettings):
    """Central differential privacy: updates are clipped and noise joins their mean, on the server.

    Clients weigh alike. A client that failed is left out of the mean, and the noise grows with the
    clipped update's part in it: its deviation is noise_multiplier * clipping norm / those accepted.
    The noise follows from the experiment's seed and the round, so that a run repeats. Clients are
    told that seed, and the record holds it: whoever knows it can take the noise off. This is for
    studying what privacy costs, and does not yet protect anybody. Losses and counts in the record
    have no noise either.

    Attributes:
        noise_multiplier: the noise's deviation over the sensitivity; 0 clips alone.
    """

    averages: ClassVar = False
    private: ClassVar = True

    noise_multiplier: float

    def __post_init__(self) -> None:
        if self.noise_multiplier < 0:
            refuse(self, "noise_multiplier", "must be at least 0")

    def prepare(self, weights: Wide) -> Wide:
        """Move the first number by far less than float32 can tell.

        Flower divides by the length of an update: one of length 0, from a client that sends back
        what it was sent, would end the run.
        """
        first = next(iter(weights.values()))
        first.flat[0] += 1e-9 * max(1.0, abs(float(first.flat[0])))
        return weights

    def ready(self, strategy: Strategy, updates: int) -> None:
        assert hasattr(strategy, "num_sampled_clients")
        strategy.num_sampled_clients = updates
