"""Every client is as likely as any other (McMahan et al., AISTATS 2017)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from server_app.rounds.participation.base import Clients, Participation


@dataclass
class UniformParticipation(Participation):
    """A share rho of all clients, drawn without replacement.

    With ``clock=virtual``, a client whose device is not available when it is drawn is left out.
    """

    needs_devices: ClassVar = False
    uniform: ClassVar = True

    def candidates(
        self, clients: Clients, server_round: int, now: float
    ) -> NDArray[np.bool_] | None:
        return None
