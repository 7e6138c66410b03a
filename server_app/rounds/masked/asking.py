"""One stage of a masked round: a request for each worker, and a checked row for each client."""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, TypeVar

from server_app.nodes.assignment import WorkUnit
from server_app.nodes.failure import Failure
from server_app.rounds.context import RoundContext
from task.errors import ProtocolError
from task.protocol.base import Schema
from task.protocol.envelope import Kind, Reply, TableReply, TableRequest

Row = TypeVar("Row", bound=Schema)
Asked = TypeVar("Asked", bound=TableRequest)
Answer = TypeVar("Answer", bound=Reply)


class Stages:
    """Asks the workers of an attempt, stage after stage; a client that fails is not asked again.

    Args:
        context: the run.
        server_round: the round.
        attempt: the attempt at it.
        units: which worker has which clients.

    Attributes:
        reasons: by client, why it takes no part any more.
    """

    def __init__(
        self, context: RoundContext, server_round: int, attempt: int, units: Sequence[WorkUnit]
    ) -> None:
        self._context, self._round, self._units = context, server_round, units
        self._attempt = attempt
        self.reasons: dict[int, str] = {}

    def replies(
        self,
        kind: Kind[Asked, Answer],
        clients: Collection[int],
        fields: Callable[[list[int]], dict[str, Any]],
    ) -> Iterator[tuple[WorkUnit, Answer]]:
        """Ask for one stage, and yield each usable reply with the clients that it is for.

        Args:
            kind: the kind of message.
            clients: who is asked.
            fields: the fields of the request to a worker of some clients.
        """
        units = [
            WorkUnit(unit.node, asked)
            for unit in self._units
            if (asked := [client for client in unit.clients if client in clients])
        ]
        requests = self._context.addressed_requests(
            kind, units, self._round, lambda unit: fields(unit.clients), self._attempt
        )
        exchange = self._context.exchange(kind, requests)
        for place, reply in exchange.arrivals():
            if isinstance(reply, Failure):
                self.reasons |= dict.fromkeys(units[place].clients, reply.reason)
            else:
                yield units[place], reply
        self._context.late_replies.expect(exchange, units, f"{kind.action} of round {self._round}")

    def rows(
        self,
        kind: Kind[Asked, TableReply],
        clients: Collection[int],
        fields: Callable[[list[int]], dict[str, Any]],
        schema: type[Row],
        take: Callable[[int, Row], None],
    ) -> None:
        """Ask for one stage, and pass on the row of each client that takes part in it.

        Args:
            kind: the kind of message.
            clients: who is asked.
            fields: the fields of the request to a worker of some clients.
            schema: the rows of the reply.
            take: uses a row; a `ProtocolError` of it becomes the client's reason.
        """
        for unit, reply in self.replies(kind, clients, fields):
            for client in unit.clients:
                try:
                    found = reply.fields_of(client)
                    row = schema.checked(found)
                    if reason := found.get("reason"):
                        raise ProtocolError(str(reason))
                    take(client, row)
                except ProtocolError as error:
                    self.reasons[client] = str(error)
