"""Adam on the server, with the mean update as its gradient (Reddi et al., ICLR 2021)."""

from dataclasses import dataclass
from typing import ClassVar

from flwr.serverapp.strategy import FedAdam

from server_app.strategies.families.weighted import MomentSettings


@dataclass
class FedAdamSettings(MomentSettings):
    """Adam over rounds."""

    optimiser: ClassVar = FedAdam
