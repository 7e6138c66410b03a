"""Half of the way to the clients' mean."""

from dataclasses import dataclass

from flwr.serverapp.strategy import FedAvgM

from univarfl.extend import COMMON_ARGUMENTS, WeightedSettings


@dataclass
class HalfStep(WeightedSettings):
    """Move part of the way to the clients' mean.

    Attributes:
        step: the part, in (0, 1].
    """

    step: float

    def build(self, participants: int) -> FedAvgM:
        return FedAvgM(**COMMON_ARGUMENTS, server_learning_rate=self.step, server_momentum=0.0)

    def prepare_round(self, strategy: FedAvgM, updates: int) -> None:  # type: ignore[override]
        strategy.current_arrays = None
