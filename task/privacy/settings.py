"""The settings of noise that clients add themselves."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

LEAST_NOISE = 0.01
UNTOLD_IMAGES = 2  # reported in place of a client's number of images, which depends on its data


class Privacy(BaseModel):
    """Whose data are protected by noise at the clients, and by how much of it.

    Attributes:
        unit: ``example`` protects each training image; None adds no noise at the clients.
        noise_multiplier: the noise's standard deviation divided by `clipping_norm`.
        clipping_norm: the largest L2 norm of one image's gradient.
        sampling_rate: the probability with which each image is in a batch.
        delta: the delta that epsilon is reported for.
        reproducible: whether the noise follows from the seed, for studies.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    unit: Literal["example"] | None
    noise_multiplier: Annotated[float, Field(ge=0, le=1e6)]
    clipping_norm: Annotated[float, Field(gt=0)]
    sampling_rate: Annotated[float, Field(ge=1e-4, le=1)]
    delta: Annotated[float, Field(gt=0, lt=1)]
    reproducible: bool

    @field_validator("noise_multiplier")
    @classmethod
    def _enough_or_none(cls, value: float) -> float:
        if 0 < value < LEAST_NOISE:
            raise ValueError(f"must be {LEAST_NOISE} or more, or 0 for no noise")
        return value

    @property
    def per_example(self) -> bool:
        """Whether each training image is protected by noise at its client."""
        return self.unit == "example"

    def steps(self, epochs: int) -> int:
        """Return the number of batches in so many passes over the data, on average."""
        return max(1, round(epochs / self.sampling_rate))
