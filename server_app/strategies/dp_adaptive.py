"""Differential privacy whose clipping norm follows a quantile (Andrew et al., NeurIPS 2021)."""

import math
from dataclasses import dataclass
from typing import ClassVar

from flwr.app import ArrayRecord
from flwr.serverapp.strategy import (
    DifferentialPrivacyServerSideAdaptiveClipping,
    FedAvg,
    Strategy,
)

from server_app.strategies.base import COMMON
from server_app.strategies.families.private import PrivateSettings
from task.errors import refuse


class QuantileClipping(DifferentialPrivacyServerSideAdaptiveClipping):
    """Flower's strategy, its norm moved as in the paper's Algorithm 1.

    Flower 1.41 takes the share of *clipped* updates where the paper takes that of the others, so
    that the norm runs away from the quantile; and it draws the noise with the next round's norm.
    """

    def _geometric_update(self, clipped_fraction: float) -> None:
        self._unclipped = 1 - clipped_fraction

    def _add_noise_to_aggregated_arrays(self, aggregated: ArrayRecord) -> ArrayRecord:
        noised = super()._add_noise_to_aggregated_arrays(aggregated)
        distance = self._unclipped - self.target_clipped_quantile
        self.clipping_norm *= math.exp(-self.clip_norm_lr * distance)
        return noised


@dataclass
class DpAdaptiveSettings(PrivateSettings):
    """DP with adaptive clipping.

    Part of `noise_multiplier` goes to the count of clipped updates; that of the weights is larger
    by as much as the two together need.

    Attributes:
        initial_clipping_norm: the first round's.
        target_quantile: the share of the updates that are not to be clipped.
        clipping_lr: how fast the norm moves.
        clipped_count_deviation: of the noise on the count of clipped updates; None is a twentieth
            of the participants.
    """

    remembers: ClassVar = ("clipping_norm",)

    initial_clipping_norm: float
    target_quantile: float
    clipping_lr: float
    clipped_count_deviation: float | None

    def __post_init__(self) -> None:
        super().__post_init__()
        for field in ("initial_clipping_norm", "clipping_lr"):
            if getattr(self, field) <= 0:
                refuse(self, field, "must be above 0")
        if not 0 <= self.target_quantile <= 1:
            refuse(self, "target_quantile", "must be from 0 to 1")
        if self.clipped_count_deviation is not None and self.clipped_count_deviation <= 0:
            refuse(self, "clipped_count_deviation", "must be above 0, or null")

    def check(self, participants: int, num_clients: int) -> None:
        deviation = self.clipped_count_deviation or participants / 20
        if self.noise_multiplier >= 2 * deviation:
            refuse(
                self,
                "noise_multiplier",
                f"must be below twice strategy.clipped_count_deviation, here 2 * {deviation:g}, "
                "since part of the noise goes to the count of clipped updates",
            )

    def build(self, participants: int) -> Strategy:
        return QuantileClipping(
            FedAvg(**COMMON),
            self.noise_multiplier,
            participants,
            initial_clipping_norm=self.initial_clipping_norm,
            target_clipped_quantile=self.target_quantile,
            clip_norm_lr=self.clipping_lr,
            clipped_count_stddev=self.clipped_count_deviation,
        )
