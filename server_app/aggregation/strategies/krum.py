"""Krum: the single model closest to its neighbours (Blanchard et al., NeurIPS 2017)."""

from dataclasses import dataclass
from typing import ClassVar

from flwr.serverapp.strategy import Strategy

from server_app.aggregation.strategies.base import COMMON_ARGUMENTS
from server_app.aggregation.strategies.families.nearest import NearestMean
from server_app.aggregation.strategies.families.robust import RobustSettings


@dataclass
class KrumSettings(RobustSettings):
    """Settings of Krum; needs 2f + 3 participants."""

    participants_needed: ClassVar = (2, 3)

    def build(self, participants: int) -> Strategy:
        return NearestMean(
            **COMMON_ARGUMENTS, num_malicious_nodes=self.num_malicious, num_nodes_to_select=1
        )
