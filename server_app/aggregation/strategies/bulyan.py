"""Bulyan: MultiKrum's selection, then a mean around the median (El Mhamdi et al., ICML 2018)."""

from dataclasses import dataclass
from typing import ClassVar

from flwr.serverapp.strategy import Bulyan, Strategy

from server_app.aggregation.strategies.base import COMMON_ARGUMENTS
from server_app.aggregation.strategies.families.robust import RobustSettings


@dataclass
class BulyanSettings(RobustSettings):
    """Settings of Bulyan; needs 4f + 3 participants."""

    participants_needed: ClassVar = (4, 3)

    def build(self, participants: int) -> Strategy:
        return Bulyan(**COMMON_ARGUMENTS, num_malicious_nodes=self.num_malicious)
