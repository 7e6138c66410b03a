"""Asking every client for the statistics of its features."""

from collections.abc import Sequence

from server_app.nodes.failure import ABSENT, Failure, usable
from server_app.rounds.after.calibration.pooling import PooledStatistics
from server_app.rounds.context import RoundContext
from server_app.rounds.ending.asking import (
    ask_clients,
    check_quorum,
    clients_with_images,
    telling_clients,
    wait_for_quorum,
)
from task.errors import ProtocolError
from task.protocol.after.statistics import (
    STATISTICS,
    StatisticsReply,
    check_statistics,
    statistics_bytes,
)
from task.tensors import Tensors


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
        """Ask every client that has images, and record the names of those without statistics.

        Raises:
            RunFailedError: fewer clients than the quorum have answered, of those whose owners
                allow it.
        """
        context = self._context
        wanted, allowed = clients_with_images(context), telling_clients(context)
        wait_for_quorum(context, allowed)
        sizes = context.sizes.train
        clients = [client for client in wanted if sizes[client]]
        block = context.clients_per_reply(statistics_bytes(*self._shape))
        for start in range(0, len(clients), block):
            self._ask(clients[start : start + block])
        self.missing |= {client: ABSENT for client in wanted if not sizes[client]}
        for client, reason in sorted(self.missing.items()):
            context.note_client(client, f"no statistics: {reason}")
        check_quorum(context, allowed, self.missing, "after=ccvr", "sent statistics")

    def _ask(self, clients: Sequence[int]) -> None:
        context = self._context
        classes, features = self._shape
        fields = {"classes": classes, "features": features, "weights": context.model.packed_weights}
        replies = ask_clients(
            context, STATISTICS, clients, context.sizes.train, lambda _: fields, "statistics"
        )
        for client in clients:
            try:
                statistics = self._read(client, replies[client])
            except ProtocolError as error:
                self.missing[client] = str(error)
            else:
                self.pooled.add(statistics)
                self.clients.append(client)

    def _read(self, client: int, reply: StatisticsReply | Failure) -> Tensors:
        """Return a client's statistics.

        Raises:
            ProtocolError: it has none that can be used.
        """
        statistics = usable(reply).of(client)
        return check_statistics(statistics, *self._shape, self._context.sizes.train[client])
