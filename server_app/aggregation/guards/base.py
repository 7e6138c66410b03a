"""The base class of guards, and their common bound on the norm of an update."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import ClassVar

from server_app.config.experiment import Experiment
from task.errors import refuse

MIN_UPDATES = 3  # with fewer, no update can be called an outlier


@dataclass(frozen=True)
class Guard:
    """Decides how much of each update counts, compared with the others of its round.

    Every update has passed the checks of its names, shapes and dtypes before.

    Attributes:
        most_images: the largest number of training images that a client may report, at least 1.
        needs_each_update: whether it reads each client's update, which must then be sent and kept
            separately.
        clips: whether it may scale an update down.
        least_updates: the number of updates below which it keeps every update.
    """

    most_images: int
    needs_each_update: ClassVar[bool] = True
    clips: ClassVar[bool] = False
    least_updates: ClassVar[int] = 0
    __pydantic_config__: ClassVar = {"extra": "forbid", "allow_inf_nan": False}

    def __post_init__(self) -> None:
        if self.most_images < 1:
            refuse(self, "most_images", "must be 1 or more")

    def scales(self, norms: Mapping[int, float]) -> dict[int, float]:
        """Return the factor in [0, 1] for each client's update: 1 keeps it, 0 rejects it.

        Args:
            norms: the norm of each client's update, by client.
        """
        return dict.fromkeys(norms, 1.0)


@dataclass(frozen=True)
class NormGuard(Guard):
    """Bounds the norm of each update by a multiple of the round's median norm.

    Attributes:
        times_median: the largest norm, as a multiple of the median norm; above 1.
    """

    least_updates: ClassVar[int] = MIN_UPDATES
    times_median: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.times_median <= 1:
            refuse(self, "times_median", "must be above 1")

    def max_norm(self, norms: Sequence[float]) -> float:
        """Return the largest accepted norm; infinity for fewer than `MIN_UPDATES` updates."""
        return self.times_median * median(norms) if len(norms) >= MIN_UPDATES else math.inf


def guard_of(experiment: Experiment) -> Guard:
    """Return the guard of an experiment."""
    found: Guard = experiment.component("guard")
    return found
