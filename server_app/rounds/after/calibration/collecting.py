"""Asking every client for the statistics of its features."""

from collections.abc import Sequence

from server_app.nodes.assignment import assign_clients, served_clients
from server_app.nodes.failure import Failure, usable
from server_app.rounds.after.calibration.pooling import PooledStatistics
from server_app.rounds.context import RoundContext
from task.methods.base import Tensors
from task.protocol.after.statistics import check_statistics, statistics_bytes
from task.protocol.errors import ProtocolError
from task.protocol.messages import STATISTICS, StatisticsReply

MEGABYTE = 1e6
ABSENT = "its SuperNode is not connected, or was refused (see events.csv)"


class Collection:
    """The statistics of the clients that answered.

    Clients are asked in blocks, by number, so that the server holds few replies at a time.

    Args:
        context: the run, after its last round.
        classes: D.
        features: d.

    Attributes:
        pooled: the statistics.
        clients: the clients whose statistics they are, ascending.
        missing: by client, why it has none.
    """

    def __init__(self, context: RoundContext, classes: int, features: int) -> None:
        self._context, self._shape = context, (classes, features)
        self.pooled = PooledStatistics(classes, features)
        self.clients: list[int] = []
        self.missing: dict[int, str] = {}

    def collect(self) -> None:
        """Ask every client that has images, and record the names of those without statistics."""
        context = self._context
        context.connected()
        sizes = context.sizes.train
        clients = [client for client, images in enumerate(sizes) if images]
        limit = context.experiment.federation.message_megabytes * MEGABYTE
        block = max(1, int(limit // statistics_bytes(*self._shape)))
        for start in range(0, len(clients), block):
            self._ask(clients[start : start + block])
        if context.sites:
            unknown = [client for client, images in enumerate(sizes) if not images]
            self.missing |= dict.fromkeys(unknown, ABSENT)
        for client, reason in sorted(self.missing.items()):
            site = context.sites[client] if context.sites else ""
            who = "" if site else f"client {client}: "
            context.note(site, f"{who}no statistics: {reason}")

    def _ask(self, clients: Sequence[int]) -> None:
        context = self._context
        nodes = context.connected()
        here = served_clients(clients, nodes)
        self.missing |= dict.fromkeys(set(clients) - set(here), ABSENT)
        units = assign_clients(here, context.sizes.train, nodes, max(1, len(here)))
        classes, features = self._shape
        fields = {"classes": classes, "features": features, "weights": context.model.packed_weights}
        letters = context.letters(STATISTICS, units, context.experiment.rounds, lambda _: fields)
        exchange = context.exchange(STATISTICS, letters)
        found: dict[int, Tensors] = {}
        for unit, reply in zip(units, exchange.replies(), strict=True):
            for client in unit.clients:
                try:
                    found[client] = self._read(client, reply)
                except ProtocolError as error:
                    self.missing[client] = str(error)
        context.late_replies.expect(exchange, units, "statistics after the last round")
        for client in sorted(found):
            self.pooled.add(found[client])
            self.clients.append(client)

    def _read(self, client: int, reply: StatisticsReply | Failure) -> Tensors:
        """Return a client's statistics.

        Raises:
            ProtocolError: it has none that can be used.
        """
        statistics = usable(reply).of(client)
        return check_statistics(statistics, *self._shape, self._context.sizes.train[client])
