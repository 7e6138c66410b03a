"""The time that training would take on devices that differ in speed, bandwidth and availability.

Each client has a device. A round's simulated seconds follow from images, epochs and bytes, and not
from this machine. So accuracy over time can be compared between methods and strategies, and a
result is repeated bit for bit.

The distributions are ours. A log-normal distribution has the heavy upper tail that field studies
report: Bonawitz et al., "Towards Federated Learning at Scale", MLSys 2019, report that availability
varies fourfold over the day, and that 6 to 10 % of the devices drop out.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from server_app.config.file_hash import require_unchanged
from server_app.rounds.clock.base import Clock
from server_app.rounds.devices.devices import Devices
from server_app.rounds.devices.profiles import Population
from server_app.rounds.devices.trace import read_trace
from task.data.dataset import Positions
from task.errors import ConfigError, refuse

if TYPE_CHECKING:
    from server_app.config.experiment import Experiment

MOST_SIGMA = 10.0


@dataclass
class VirtualClock(Clock):
    """Simulated seconds.

    Attributes:
        seconds_per_image: training time of one image on the median device, in seconds.
        step_cost: cost of a method's step relative to FedAvg's; 1.0 for methods without a second
            network.
        speed_sigma: standard deviation of the logarithm of a device's speed; 0 for equal devices.
        megabits: bandwidth of the median device in megabits per second, in each direction.
        bandwidth_sigma: standard deviation of the logarithm of a device's bandwidth.
        variation: standard deviation of the logarithm of the time of one attempt.
        available_hours: how long a device is available each day; 24 for always.
        available_spread: standard deviation, in hours, of the time at which it becomes available,
            around midnight. The run begins at midnight.
        dropout: the chance that an attempt at training ends without an update.
        trace: a CSV file with a row for each client, in their order, and the columns
            seconds_per_image, megabits, available_from and available_hours (hours), and dropout;
            further rows are not used; null to draw the devices.
        trace_sha256: of that file when the experiment was composed; not a setting.
    """

    virtual: ClassVar = True

    seconds_per_image: float
    step_cost: float
    speed_sigma: float
    megabits: float
    bandwidth_sigma: float
    variation: float
    available_hours: float
    available_spread: float
    dropout: float
    trace: str | None
    trace_sha256: str | None = None

    def __post_init__(self) -> None:
        for field in ("step_cost", "megabits"):
            if getattr(self, field) <= 0:
                refuse(self, field, "must be above 0")
        for field in ("seconds_per_image", "available_spread"):
            if getattr(self, field) < 0:
                refuse(self, field, "must be at least 0")
        for field in ("speed_sigma", "bandwidth_sigma", "variation"):
            if not 0 <= getattr(self, field) <= MOST_SIGMA:
                refuse(self, field, f"must be from 0 to {MOST_SIGMA:g}")
        if not 0 < self.available_hours <= 24:
            refuse(self, "available_hours", "must be above 0 and at most 24")
        if not 0 <= self.dropout < 1:
            refuse(self, "dropout", "must be from 0 to below 1")

    def problems(self, experiment: "Experiment") -> Iterator[ConfigError]:
        if experiment.partitioner().sites:
            allowed = "simulates devices, and sites are real; add clock=real"
            yield ConfigError("clock", "virtual", allowed)
        secure = experiment.secure
        if secure.rounded or experiment.privacy.per_client:
            what = f"secure={secure.mode}" if secure.rounded else "privacy.unit=client"
            allowed = f"not yet with {what}, whose thresholds count the clients that are asked"
            yield ConfigError("clock", "virtual", f"{allowed}; add clock=real")
        if self.trace is not None:
            read_trace(Path(self.trace), experiment.num_clients)

    def devices(
        self, experiment: "Experiment", images: Positions, exchanged_bytes: int
    ) -> Devices | None:
        if self.trace is not None:
            path = Path(self.trace)
            if self.trace_sha256 is not None:
                require_unchanged("clock.trace", path, self.trace_sha256, "start the run again")
            profiles = read_trace(path, experiment.num_clients)
        else:
            population = Population(
                self.seconds_per_image, self.speed_sigma, self.megabits, self.bandwidth_sigma,
                self.available_hours, self.available_spread, self.dropout,
            )  # fmt: skip
            profiles = population.draw(experiment.num_clients, experiment.seed)
        steps = experiment.local_epochs * self.step_cost
        return Devices(profiles, images, steps, exchanged_bytes, self.variation, experiment.seed)
