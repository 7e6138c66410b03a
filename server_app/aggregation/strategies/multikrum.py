"""MultiKrum: mean of the models closest to their neighbours (Blanchard et al., NeurIPS 2017)."""

from dataclasses import dataclass
from typing import ClassVar

from flwr.serverapp.strategy import Strategy

from server_app.aggregation.strategies.base import COMMON_ARGUMENTS
from server_app.aggregation.strategies.families.nearest import NearestMean
from server_app.aggregation.strategies.families.robust import RobustSettings
from task.errors import refuse


@dataclass
class MultiKrumSettings(RobustSettings):
    """Settings of MultiKrum; needs 2f + 3 participants.

    Attributes:
        selected: the number of models to average, from 1 to participants - f; None means
            participants - f.
    """

    participants_needed: ClassVar = (2, 3)

    selected: int | None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.selected is not None and self.selected < 1:
            refuse(self, "selected", "must be at least 1, or null for all but num_malicious")

    def check_participants(self, participants: int, num_clients: int) -> None:
        super().check_participants(participants, num_clients)
        if self.selected is not None and self.selected > participants - self.num_malicious:
            most = participants - self.num_malicious
            refuse(self, "selected", f"must be at most participants - num_malicious = {most}")

    def build(self, participants: int) -> Strategy:
        return NearestMean(
            **COMMON_ARGUMENTS,
            num_malicious_nodes=self.num_malicious,
            num_nodes_to_select=self.selected or participants - self.num_malicious,
        )

    def prepare_round(self, strategy: Strategy, updates: int) -> None:
        assert isinstance(strategy, NearestMean)
        trusted = updates - self.num_malicious  # fewer if sampled clients failed
        strategy.num_nodes_to_select = min(self.selected or trusted, trusted)
