"""The time that training takes on this machine, or at the sites."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from server_app.rounds.clock.base import Clock
from task.data.dataset import Positions

if TYPE_CHECKING:
    from server_app.config.experiment import Experiment
    from server_app.rounds.devices.devices import Devices


@dataclass
class RealClock(Clock):
    """Real seconds; no device is simulated."""

    def devices(
        self, experiment: "Experiment", images: Positions, exchanged_bytes: int
    ) -> "Devices | None":
        return None
