"""Each round asks clients whose devices take about as long as each other.

Chai et al., "TiFL: A Tier-based Federated Learning System", HPDC 2020, with the paper's uniform
choice of the tier. Its adaptive choice is left out.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from server_app.rounds.participation.base import Clients, Participation
from task.errors import ConfigError, refuse
from task.seeding import numpy_generator

if TYPE_CHECKING:
    from server_app.config.experiment import Experiment


@dataclass
class TieredParticipation(Participation):
    """Clients are ordered by the usual seconds of their attempts, and cut into equal tiers.

    A round draws a tier, all with the same chance, and its participants from the tier.

    Attributes:
        tiers: the number of tiers, at least 1.
    """

    waits: ClassVar = True

    tiers: int

    def __post_init__(self) -> None:
        if self.tiers < 1:
            refuse(self, "tiers", "must be at least 1")

    def problems(self, experiment: "Experiment") -> Iterator[ConfigError]:
        yield from super().problems(experiment)
        smallest = experiment.num_clients // self.tiers
        if smallest < experiment.participants:
            allowed = (
                f"leaves {smallest} of {experiment.num_clients} clients in a tier, and a round "
                f"wants {experiment.participants}; lower it or rho"
            )
            yield ConfigError("participation.tiers", self.tiers, allowed)

    def candidates(
        self, clients: Clients, server_round: int, now: float
    ) -> NDArray[np.bool_] | None:
        assert clients.devices is not None
        seconds = clients.devices.usual_seconds()
        tiers = np.array_split(np.argsort(seconds, kind="stable"), self.tiers)
        generator = numpy_generator(clients.seed, "tier", server_round)
        in_tier = np.zeros(clients.number, dtype=np.bool_)
        in_tier[tiers[int(generator.integers(self.tiers))]] = True
        return in_tier
