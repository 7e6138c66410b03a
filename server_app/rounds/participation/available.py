"""Only clients whose devices are available are asked."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from server_app.rounds.participation.base import Clients, Participation


@dataclass
class AvailableParticipation(Participation):
    """As many clients as with ``uniform``, drawn from those that are available.

    If fewer are available, all of them take part. If none is available, the round begins when the
    first device becomes available. Clients that are available at other hours take part less often,
    so that the model may fit the data of some better.
    """

    def starts(self, clients: Clients, now: float, idle: NDArray[np.bool_] | None = None) -> float:
        assert clients.devices is not None
        return clients.devices.next_available(now, idle)

    def candidates(
        self, clients: Clients, server_round: int, now: float
    ) -> NDArray[np.bool_] | None:
        assert clients.devices is not None
        return clients.devices.available(now)
