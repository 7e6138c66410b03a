"""The interface of guards, and the bound that they share."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import ClassVar

from task.errors import refuse

PEERS = 3  # with fewer there is no telling who is the odd one


@dataclass(frozen=True)
class Guard:
    """Judges a round's updates, each of a form that can be aggregated, beside each other.

    Attributes:
        most_images: a client that says it trains on more is refused.
        looks: whether it looks at each update, which then has to be sent and kept by itself.
        shortens: whether an update may count in part.
    """

    most_images: int
    looks: ClassVar[bool] = True
    shortens: ClassVar[bool] = False
    __pydantic_config__: ClassVar = {"extra": "forbid", "allow_inf_nan": False}

    def __post_init__(self) -> None:
        if self.most_images < 1:
            refuse(self, "most_images", "must be 1 or more")

    def shares(self, lengths: Mapping[int, float]) -> dict[int, float]:
        """How much of each update counts: 1 all of it, 0 nothing, between them it is shortened.

        Args:
            lengths: by client, how far its update moves the model; see `task.lengths.length`.
        """
        return dict.fromkeys(lengths, 1.0)


@dataclass(frozen=True)
class ByPeers(Guard):
    """Bounds the length of updates by that of the round's others.

    Attributes:
        times_median: how many times the median's length an update may have.
    """

    times_median: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.times_median <= 1:
            refuse(self, "times_median", "must be above 1")

    def bound(self, lengths: Sequence[float]) -> float:
        """The greatest length that is believed; infinity where too few are there to compare."""
        return self.times_median * median(lengths) if len(lengths) >= PEERS else math.inf
