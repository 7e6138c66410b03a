"""DP with server-side clipping at a quantile of the norms (Andrew et al., NeurIPS 2021)."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from flwr.app import ArrayRecord
from flwr.serverapp.strategy import (
    DifferentialPrivacyServerSideAdaptiveClipping,
    FedAvg,
    Strategy,
)

from server_app.aggregation.strategies.base import COMMON_ARGUMENTS
from server_app.aggregation.strategies.families.private import NoisyStrategy, PrivateSettings
from task.errors import refuse
from task.privacy.noise import add_gaussian_noise


class QuantileClipping(NoisyStrategy, DifferentialPrivacyServerSideAdaptiveClipping):
    """Flower's strategy with the clipping norm updated as in the paper's Algorithm 1.

    Flower 1.42 differs from the paper in two ways. It uses the share of *clipped* updates instead
    of unclipped ones, so that the norm moves away from the quantile. And it scales the noise by the
    next round's norm.
    """

    def _noisy_fraction(self, count: int, total: int) -> float:
        counted = np.array([float(count)])
        return (
            float(add_gaussian_noise(counted, self.clipped_count_stddev, self.random_bytes)[0])
            / total
        )

    def _geometric_update(self, clipped_fraction: float) -> None:
        self._unclipped = 1 - clipped_fraction

    def _add_noise_to_aggregated_arrays(self, aggregated: ArrayRecord) -> ArrayRecord:
        noised = super()._add_noise_to_aggregated_arrays(aggregated)
        distance = self._unclipped - self.target_clipped_quantile
        self.clipping_norm *= math.exp(-self.clip_norm_lr * distance)
        return noised


@dataclass
class DpAdaptiveSettings(PrivateSettings):
    """Settings of differential privacy with adaptive clipping on the server.

    Part of the privacy budget of `noise_multiplier` goes to the count of clipped updates, so the
    noise on the weights is larger than `noise_multiplier` alone: both together cost as much.

    Attributes:
        initial_clipping_norm: the L2 norm of the first round, above 0.
        target_quantile: the share of updates that should not be clipped, in [0, 1].
        clipping_lr: the learning rate of the norm, above 0.
        clipped_count_deviation: the standard deviation of the noise on the count of clipped
            updates, above 0; None means participants / 20.
    """

    state_attributes: ClassVar = ("clipping_norm",)

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

    def check_participants(self, participants: int, num_clients: int) -> None:
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
            FedAvg(**COMMON_ARGUMENTS),
            self.noise_multiplier,
            participants,
            initial_clipping_norm=self.initial_clipping_norm,
            target_clipped_quantile=self.target_quantile,
            clip_norm_lr=self.clipping_lr,
            clipped_count_stddev=self.clipped_count_deviation,
        )
