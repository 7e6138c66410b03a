"""The server's part of a method, and what it learns of a round."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import NamedTuple

from torch import Tensor


class Contribution(NamedTuple):
    """A round's accepted clients as one mean; a server update never sees a single client.

    Attributes:
        share: the accepted clients' share of the federation's objective, in (0, 1]; 1 if every
            client took part.
        weights: the weighted mean of their trained models, float64.
        extra: the weighted mean of what their ``finish`` sent, float64.
        known: the share of the present objective that belongs to clients known at the previous
            update, in (0, 1]. It is below 1 if sites have joined since; a mean over all clients
            shrinks by this factor.
    """

    share: float
    weights: Mapping[str, Tensor]
    extra: Mapping[str, Tensor]
    known: float


class ServerUpdate(ABC):
    """The server's part of a method, called once per round after the aggregation.

    Attributes:
        state: everything that it keeps between rounds, by name; saved in checkpoints.
    """

    state: dict[str, Tensor]

    def broadcast(self) -> Mapping[str, Tensor]:
        """Return what every client receives in addition to the global weights."""
        return {}

    def problem_with(self, extra: Mapping[str, Tensor]) -> str:
        """Return why what one client sent in addition cannot be used; "" if it can.

        Args:
            extra: finite, with the names and shapes of the broadcast.
        """
        return ""

    @abstractmethod
    def update(
        self, before: Mapping[str, Tensor], after: Mapping[str, Tensor], clients: Contribution
    ) -> dict[str, Tensor]:
        """Return the next global weights.

        Args:
            before: the weights that the clients started from.
            after: the aggregated weights.
            clients: what the accepted clients sent.
        """
