"""The base class of clocks."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from server_app.config.experiment import Experiment
from task.data.dataset import Positions
from task.errors import ConfigError

if TYPE_CHECKING:
    from server_app.rounds.devices.devices import Devices


@dataclass
class Clock(ABC):
    """The settings of a clock.

    A subclass is a dataclass whose fields are the settings of its YAML file.

    Attributes:
        virtual: whether the clients have simulated devices, whose seconds are counted.
    """

    virtual: ClassVar[bool] = False
    __pydantic_config__: ClassVar = {"extra": "forbid", "allow_inf_nan": False}

    def problems(self, experiment: Experiment) -> Iterator[ConfigError]:
        """Yield settings that do not fit this clock; all fit that of real seconds."""
        del experiment
        yield from ()

    @abstractmethod
    def devices(
        self, experiment: Experiment, images: Positions, exchanged_bytes: int
    ) -> "Devices | None":
        """Return the devices of a run's clients; None if they are not simulated.

        Args:
            experiment: what is run.
            images: by client, the number of its training images.
            exchanged_bytes: what a client receives and sends in a round.

        Raises:
            ConfigError: a file that describes them cannot be used.
        """


def clock_of(experiment: Experiment) -> Clock:
    """Return the clock that counts the clients' seconds."""
    found: Clock = experiment.component("clock")
    return found


def is_timed(experiment: Experiment) -> bool:
    """Return whether clients start and end at times of their own, which the record has."""
    return clock_of(experiment).virtual or bool(experiment.component("strategy").buffered)
