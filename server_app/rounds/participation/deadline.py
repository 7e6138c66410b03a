"""More clients are asked than are needed, and a round does not wait for the slowest.

Bonawitz et al., "Towards Federated Learning at Scale", MLSys 2019: a round selects 130 % of the
clients that it needs, takes the first updates, and ends at a time limit.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar

from server_app.rounds.devices.devices import Attempt
from server_app.rounds.participation.available import AvailableParticipation
from server_app.rounds.participation.base import Clients
from task.errors import refuse


@dataclass
class DeadlineParticipation(AvailableParticipation):
    """As many updates as with ``uniform``, the first that arrive; later ones are dropped.

    Slow clients and those with many images are dropped more often, so that the model may fit the
    data of the others better.

    Attributes:
        over_selection: clients that are asked for each update that is needed, at least 1.
        deadline: simulated seconds after which a round ends with the updates it has.
    """

    waits: ClassVar = True

    over_selection: float
    deadline: float

    def __post_init__(self) -> None:
        if self.over_selection < 1:
            refuse(self, "over_selection", "must be at least 1")
        if self.deadline <= 0:
            refuse(self, "deadline", "must be above 0")

    def wanted(self, clients: Clients) -> int:
        return math.ceil(clients.participants * Decimal(str(self.over_selection)))

    def cut(
        self, clients: Clients, attempts: Sequence[Attempt], now: float
    ) -> tuple[float, dict[int, str]]:
        latest = now + self.deadline
        in_time = [each for each in attempts if each.arrives and each.ends <= latest]
        taken = sorted(in_time, key=lambda each: (each.ends, each.client))[: clients.participants]
        if len(taken) == clients.participants:
            ends = taken[-1].ends
        else:
            ends = min(latest, max((each.ends for each in attempts), default=now))
        counted = {each.client for each in taken}
        late = f"late: the round ended after {ends - now:.1f} simulated seconds"
        return ends, {
            each.client: each.reason if each.reason and each.ends <= ends else late
            for each in attempts
            if each.client not in counted
        }
