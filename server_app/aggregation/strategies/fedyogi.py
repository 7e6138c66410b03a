"""FedYogi: Yogi on the server, with the mean update as gradient (Reddi et al., ICLR 2021)."""

from dataclasses import dataclass
from typing import ClassVar

from flwr.serverapp.strategy import FedYogi

from server_app.aggregation.strategies.families.weighted import MomentSettings


@dataclass
class FedYogiSettings(MomentSettings):
    """Settings of FedYogi."""

    optimiser: ClassVar = FedYogi
