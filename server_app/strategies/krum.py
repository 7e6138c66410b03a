"""The one model that lies closest to its neighbours (Blanchard et al., NeurIPS 2017)."""

from dataclasses import dataclass
from typing import ClassVar

from flwr.serverapp.strategy import Krum, Strategy

from server_app.strategies.base import COMMON
from server_app.strategies.families.robust import RobustSettings


@dataclass
class KrumSettings(RobustSettings):
    """Krum: needs 2f + 3 participants."""

    participants_needed: ClassVar = (2, 3)

    def build(self, participants: int) -> Strategy:
        return Krum(**COMMON, num_malicious_nodes=self.num_malicious)
