"""Strategies that start from a weighted mean of the clients' models."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from flwr.serverapp.strategy import FedAdam, FedYogi, Strategy

from server_app.strategies.base import COMMON, StrategySettings
from task.errors import refuse


@dataclass
class WeightedSettings(StrategySettings):
    """A strategy that starts from a weighted mean.

    Attributes:
        weighting: ``examples`` weighs client k by n_k/N (UniVarFL, section 6), ``uniform`` by 1/K
            (its Algorithm 1).
    """

    linear: ClassVar = True
    averages: ClassVar = True

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

    remembers: ClassVar = ("m_t", "v_t")

    server_lr: float
    tau: float

    def __post_init__(self) -> None:
        for field in ("server_lr", "tau"):
            if getattr(self, field) <= 0:
                refuse(self, field, "must be above 0")


@dataclass
class MomentSettings(AdaptiveSettings):
    """An adaptive strategy with decaying moments.

    Flower corrects Adam's for their start from 0 as if one more round had been: at the usual decays
    the first update has 0.74 of the corrected length.

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
