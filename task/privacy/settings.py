"""The settings of differential privacy, which every participant reads."""

from pydantic import BaseModel, ConfigDict


class Privacy(BaseModel):
    """Where the noise of differential privacy comes from."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    reproducible: bool
