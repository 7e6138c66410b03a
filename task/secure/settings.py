"""The settings of secure aggregation, which every participant reads."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

RoundingRule = Literal["stochastic", "nearest"]


class Secure(BaseModel):
    """Whether participants mask their updates; see `task.secure`.

    Attributes:
        mode: whether they do; ``rounded`` for the arithmetic of masked rounds without masks.
        rounding: how updates are rounded before they are masked.
        colluding: how many of them may work with the coordinator; None for just below a third.
        max_share: the largest weight of one participant in a sum that a participant accepts.
        max_norm: the largest norm of an update, which each participant applies; None for any.
        start: the hash of the weights that round 1 starts from, by
            `task.secure.transcript.weights_hash`; None for the initial weights of the seed.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    mode: Literal["none", "masked", "rounded"] = "none"
    rounding: RoundingRule = "stochastic"
    colluding: Annotated[int, Field(ge=0)] | None = None
    max_share: Annotated[float, Field(gt=0, le=1)] = 0.75
    max_norm: Annotated[float, Field(gt=0)] | None = None
    start: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None

    @property
    def masked(self) -> bool:
        """Whether updates are masked."""
        return self.mode == "masked"

    @property
    def rounded(self) -> bool:
        """Whether updates are rounded as masked rounds need it."""
        return self.mode != "none"
