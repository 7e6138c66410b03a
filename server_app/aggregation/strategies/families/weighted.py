"""Strategies that use the weighted mean of the clients' models."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from flwr.serverapp.strategy import FedAdam, FedYogi, Strategy

from server_app.aggregation.strategies.base import COMMON_ARGUMENTS, StrategySettings
from task.errors import refuse


@dataclass
class WeightedSettings(StrategySettings):
    """Settings of a strategy that uses the weighted mean of the clients' models.

    Attributes:
        weighting: ``examples`` gives client k the weight n_k/N (UniVarFL, section 6), ``uniform``
            the weight 1/K (its Algorithm 1).
    """

    needs_each_update: ClassVar = False
    moves_to_mean: ClassVar = True

    weighting: Literal["examples", "uniform"]

    def weight(self, examples: int) -> float:
        return float(examples) if self.weighting == "examples" else 1.0


@dataclass
class AdaptiveSettings(WeightedSettings):
    """Settings of a server optimizer whose gradient is the mean update.

    Source: Reddi et al., "Adaptive Federated Optimization", ICLR 2021.

    Attributes:
        server_lr: the server's learning rate, the paper's eta, above 0.
        tau: the degree of adaptivity, above 0; added to the root of the second moment.
    """

    state_attributes: ClassVar = ("m_t", "v_t")

    server_lr: float
    tau: float

    def __post_init__(self) -> None:
        for field in ("server_lr", "tau"):
            if getattr(self, field) <= 0:
                refuse(self, field, "must be above 0")


@dataclass
class MomentSettings(AdaptiveSettings):
    """Settings of an adaptive strategy with decaying moments.

    Flower's bias correction of Adam counts one round too many: with the usual decays, the first
    step has 0.74 of the norm of the correct one.

    Attributes:
        optimiser: the Flower strategy.
        beta_1: the decay of the first moment, in [0, 1).
        beta_2: the decay of the second moment, in [0, 1).
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
            **COMMON_ARGUMENTS,
            eta=self.server_lr,
            tau=self.tau,
            beta_1=self.beta_1,
            beta_2=self.beta_2,
        )
