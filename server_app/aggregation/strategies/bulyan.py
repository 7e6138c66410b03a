"""Bulyan: MultiKrum's selection, then a mean around the median (El Mhamdi et al., ICML 2018)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from flwr.serverapp.strategy import Bulyan, Strategy

from server_app.aggregation.strategies.base import COMMON_ARGUMENTS
from server_app.aggregation.strategies.families.blocks import BlockwiseStrategy, Values
from server_app.aggregation.strategies.families.nearest import nearest_updates
from server_app.aggregation.strategies.families.robust import RobustSettings


class BlockwiseBulyan(BlockwiseStrategy, Bulyan):
    """Flower's Bulyan with less memory."""

    def select(self, rows: Values) -> Sequence[int]:
        count = len(rows) - 2 * self.num_malicious_nodes
        return nearest_updates(rows, self.num_malicious_nodes, count)

    def combine(self, values: Values) -> Values:
        """Return the mean of all but 2f values, those closest to the median."""
        count = len(values) - 2 * self.num_malicious_nodes
        distances = np.abs(values - np.median(values, axis=0))
        closest = np.argpartition(distances, count - 1, axis=0)[:count]
        mean: Values = np.take_along_axis(values, closest, axis=0).mean(axis=0)
        return mean


@dataclass
class BulyanSettings(RobustSettings):
    """Settings of Bulyan; needs 4f + 3 participants."""

    participants_needed: ClassVar = (4, 3)

    def build(self, participants: int) -> Strategy:
        return BlockwiseBulyan(**COMMON_ARGUMENTS, num_malicious_nodes=self.num_malicious)
