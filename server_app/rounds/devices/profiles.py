"""What the devices of a population can do: drawn from distributions."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from task.seeding import numpy_generator

HOUR = 3600.0
DAY = 24 * HOUR
BYTES_PER_MEGABIT = 125_000.0

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Profiles:
    """What each client's device can do.

    Attributes:
        seconds_per_image: [K], the time of one training step divided by its images.
        bytes_per_second: [K], of the network, in each direction.
        available_from: [K], the second of the day at which the device becomes available.
        available_seconds: [K], for how long it then is; `DAY` for always.
        dropout: [K], the chance that an attempt at training ends without an update.
    """

    seconds_per_image: Values
    bytes_per_second: Values
    available_from: Values
    available_seconds: Values
    dropout: Values


@dataclass(frozen=True)
class Population:
    """The distributions that devices are drawn from.

    Attributes:
        seconds_per_image: of the median device.
        speed_sigma: standard deviation of the logarithm of a device's speed.
        megabits: bandwidth of the median device in megabits per second, in each direction.
        bandwidth_sigma: standard deviation of the logarithm of a device's bandwidth.
        available_hours: how long a device is available each day; 24 for always.
        available_spread: standard deviation of the hour at which it becomes available, around
            midnight.
        dropout: the chance that an attempt at training ends without an update.
    """

    seconds_per_image: float
    speed_sigma: float
    megabits: float
    bandwidth_sigma: float
    available_hours: float
    available_spread: float
    dropout: float

    def draw(self, clients: int, seed: int) -> Profiles:
        """Draw the devices of so many clients; client k's do not depend on how many there are."""
        speeds, bandwidths, begins = (
            numpy_generator(seed, "devices", name).standard_normal(clients)
            for name in ("speed", "bandwidth", "availability")
        )
        return Profiles(
            self.seconds_per_image * np.exp(-self.speed_sigma * speeds),
            self.megabits * BYTES_PER_MEGABIT * np.exp(self.bandwidth_sigma * bandwidths),
            (begins * self.available_spread * HOUR) % DAY,
            np.full(clients, self.available_hours * HOUR),
            np.full(clients, self.dropout),
        )
