"""The settings of secure aggregation, which every participant reads."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field


class Secure(BaseModel):
    """Whether participants mask their updates; see `task.secure`.

    Attributes:
        mode: whether they do.
        colluding: how many of them may work with the coordinator; None for just below a third.
        max_share: the largest weight of one participant in a sum that a participant accepts.
        max_norm: the largest norm of an update, which each participant applies; None for any.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    mode: Literal["none", "masked"] = "none"
    colluding: Annotated[int, Field(ge=0)] | None = None
    max_share: Annotated[float, Field(gt=0, le=1)] = 0.75
    max_norm: Annotated[float, Field(gt=0)] | None = None

    @property
    def masked(self) -> bool:
        """Whether updates are masked."""
        return self.mode == "masked"
