"""Delta, the probability with which epsilon need not hold: its bound, and what it should be below.

Releasing one image in full has epsilon 0 at a delta of 1 / (number of images), because each image
is the released one with this probability. So delta must be far below it (Dwork and Roth, "The
Algorithmic Foundations of Differential Privacy", 2014, section 2.3).
"""

from typing import Annotated

from pydantic import Field

LARGEST = 1e-3

Delta = Annotated[float, Field(gt=0, le=LARGEST)]


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
