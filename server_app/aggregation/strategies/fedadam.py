"""FedAdam: Adam on the server, with the mean update as gradient (Reddi et al., ICLR 2021)."""

from dataclasses import dataclass
from typing import ClassVar

from flwr.serverapp.strategy import FedAdam

from server_app.aggregation.strategies.families.weighted import MomentSettings


@dataclass
class FedAdamSettings(MomentSettings):
    """Settings of FedAdam."""

    optimiser: ClassVar = FedAdam
