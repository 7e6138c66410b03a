"""The settings of noise that clients add themselves, and the largest delta.

Delta is the probability with which epsilon need not hold. Releasing one image in full has epsilon 0
at a delta of 1 / (number of images), because each image is the released one with this probability.
So delta must be far below it (Dwork and Roth, "The Algorithmic Foundations of Differential
Privacy", 2014, section 2.3).
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from task.errors import ConfigError

LARGEST = 1e-3
Delta = Annotated[float, Field(gt=0, le=LARGEST)]
LEAST_NOISE = 0.01
UNTOLD_IMAGES = 2  # reported in place of a client's number of images, which depends on its data


def large_delta(key: str, delta: float, images: int) -> str:
    """Return a note if delta allows the release of a whole image; empty if it does not.

    Args:
        key: the setting.
        delta: its value.
        images: the number of images that are protected.
    """
    if delta * images < 1:
        return ""
    return (
        f"{key} is {delta:g}, which is 1 / {1 / delta:.0f}: telling one of {images} images in full "
        f"would be allowed; set it far below 1 / {images}"
    )


class Privacy(BaseModel):
    """Whose data are protected by noise at the clients, and by how much of it.

    Attributes:
        unit: ``example`` protects each training image, ``client`` all data of a client together;
            None adds no noise at the clients.
        noise_multiplier: the noise's standard deviation divided by `clipping_norm`. For clients it
            is the noise in the sum of a round's updates.
        clipping_norm: the largest L2 norm of one image's gradient, or of one client's update.
        sampling_rate: the probability with which each image is in a batch; 1 for clients.
        delta: the delta that epsilon is reported for, at most 0.001.
        reproducible: whether the noise follows from the seed, for studies.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    unit: Literal["client", "example"] | None
    noise_multiplier: Annotated[float, Field(ge=0, le=1e6)]
    clipping_norm: Annotated[float, Field(gt=0)]
    sampling_rate: Annotated[float, Field(ge=1e-4, le=1)]
    delta: Delta
    reproducible: bool

    @field_validator("noise_multiplier")
    @classmethod
    def _enough_or_none(cls, value: float) -> float:
        if 0 < value < LEAST_NOISE:
            raise ValueError(f"must be {LEAST_NOISE} or more, or 0 for no noise")
        return value

    @model_validator(mode="after")
    def _check_sampling(self) -> "Privacy":
        if self.per_client and self.sampling_rate != 1:
            allowed = (
                "must be 1 with privacy.unit=client: it is public who takes part in a round, so "
                "sampling does not lower epsilon; leave it out, and write privacy=client"
            )
            raise ConfigError("privacy.sampling_rate", self.sampling_rate, allowed)
        return self

    @property
    def private(self) -> bool:
        """Whether clients add noise. They then send nothing else that depends on their images."""
        return self.unit is not None

    @property
    def per_client(self) -> bool:
        """Whether all data of a client are protected together, by noise of many clients."""
        return self.unit == "client"

    @property
    def per_example(self) -> bool:
        """Whether each training image is protected by noise at its client."""
        return self.unit == "example"

    def steps(self, epochs: int) -> int:
        """Return the number of batches in so many passes over the data, on average."""
        return max(1, round(epochs / self.sampling_rate))
