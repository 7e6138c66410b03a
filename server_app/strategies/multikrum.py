"""The mean of the models that lie closest to their neighbours (Blanchard et al., NeurIPS 2017)."""

from dataclasses import dataclass
from typing import ClassVar

from flwr.serverapp.strategy import MultiKrum, Strategy

from server_app.strategies.base import COMMON
from server_app.strategies.families.robust import RobustSettings
from task.errors import refuse


@dataclass
class MultiKrumSettings(RobustSettings):
    """MultiKrum: needs 2f + 3 participants.

    Attributes:
        selected: how many models are averaged, at most all but f, which None is.
    """

    participants_needed: ClassVar = (2, 3)

    selected: int | None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.selected is not None and self.selected < 1:
            refuse(self, "selected", "must be at least 1, or null for all but num_malicious")

    def check(self, participants: int, num_clients: int) -> None:
        super().check(participants, num_clients)
        if self.selected is not None and self.selected > participants - self.num_malicious:
            most = participants - self.num_malicious
            refuse(self, "selected", f"must be at most participants - num_malicious = {most}")

    def build(self, participants: int) -> Strategy:
        return MultiKrum(
            **COMMON,
            num_malicious_nodes=self.num_malicious,
            num_nodes_to_select=self.selected or participants - self.num_malicious,
        )

    def ready(self, strategy: Strategy, updates: int) -> None:
        assert isinstance(strategy, MultiKrum)
        trusted = updates - self.num_malicious  # fewer than sampled when clients failed
        strategy.num_nodes_to_select = min(self.selected or trusted, trusted)
