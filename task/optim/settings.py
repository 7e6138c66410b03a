"""The settings of local optimisation, and the learning rate of each round."""

import math
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from task.errors import ConfigError


class Sgd(BaseModel):
    """Stochastic gradient descent; a client keeps at most its momentum from round to round.

    Attributes:
        lr: the learning rate, that of round 1 if it has a schedule.
        schedule: how the rate changes over the rounds; see `rate`.
        momentum: the share of the previous step that is added.
        weight_decay: the factor of the L2 penalty on the weights.
        keep_momentum: whether a client begins a round with the momentum of its last accepted one,
            as in FedAlign's release, instead of none.
        nesterov: whether the momentum is Nesterov's.
        max_gradient_norm: the L2 norm to which each batch's gradient is clipped; None: no clipping.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    lr: Annotated[float, Field(gt=0)]
    schedule: Literal["constant", "cosine"]
    momentum: Annotated[float, Field(ge=0, lt=1)]
    weight_decay: Annotated[float, Field(ge=0)]
    keep_momentum: bool
    nesterov: bool
    max_gradient_norm: Annotated[float, Field(gt=0)] | None

    @model_validator(mode="after")
    def _check_nesterov_has_momentum(self) -> "Sgd":
        if self.nesterov and not self.momentum:
            raise ConfigError("optim.nesterov", True, "needs optim.momentum above 0")
        if self.keep_momentum and not self.momentum:
            raise ConfigError("optim.keep_momentum", True, "needs optim.momentum above 0")
        return self

    def rate(self, server_round: int, rounds: int) -> float:
        """Return the learning rate of a round, the same for each of its clients and steps.

        ``cosine`` is ``lr * (1 + cos(pi * (t - 1) / T)) / 2`` for round t of T, as in FedUV's
        release (`CosineAnnealingLR` with one step per round): it begins at `lr` and stays above 0.

        Args:
            server_round: the round, from 1.
            rounds: the rounds of the whole run.
        """
        if self.schedule == "constant":
            return self.lr
        return self.lr * (1 + math.cos(math.pi * (server_round - 1) / rounds)) / 2
