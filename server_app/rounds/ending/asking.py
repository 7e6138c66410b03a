"""Asking clients for something once, outside the rounds, and how many must answer."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from server_app.nodes.assignment import WorkUnit, units_of_served
from server_app.nodes.failure import ABSENT, Failure
from server_app.rounds.context import Answer, AskedOfClients, RoundContext
from server_app.rounds.errors import RunFailedError
from server_app.rounds.sampling import quorum_count
from task.protocol.envelope import Kind


def clients_with_images(context: RoundContext) -> list[int]:
    """Return the clients that have training images, or may have: a site tells when it registers."""
    if context.sites:
        excluded = context.experiment.excluded
        return [client for client in range(len(context.sites)) if client not in excluded]
    return [client for client, images in enumerate(context.sizes.train) if images]


def telling_clients(context: RoundContext) -> list[int]:
    """Return `clients_with_images` without those of sites that do not tell their statistics."""
    silent = [node for node in context.nodes.nodes if context.sites and not node.statistics]
    return [
        client
        for client in clients_with_images(context)
        if not any(node.serves(client) for node in silent)
    ]


def ask_clients(
    context: RoundContext,
    kind: Kind[AskedOfClients, Answer],
    clients: Sequence[int],
    sizes: Sequence[int],
    fields: Callable[[WorkUnit], dict[str, Any]],
    what: str,
    server_round: int | None = None,
) -> Mapping[int, Answer | Failure]:
    """Return each client's reply, or why it has none; clients of one worker share a reply.

    Args:
        context: the run.
        kind: the kind of message.
        clients: whom to ask.
        sizes: by client, the amount of its work.
        fields: what the request to a worker has besides the clients and those of every request.
        what: what is asked for, as a late reply is named.
        server_round: the round that the request is for; None after the last one.
    """
    number = server_round or context.experiment.rounds
    units = units_of_served(clients, sizes, context.connected())
    requests = context.addressed_requests(kind, units, number, fields)
    exchange = context.exchange(kind, requests)
    found: dict[int, Answer | Failure] = {client: Failure(ABSENT) for client in clients}
    for unit, reply in zip(units, exchange.replies(), strict=True):
        found |= dict.fromkeys(unit.clients, reply)
    place = f"before round {number}" if server_round else "after the last round"
    context.late_replies.expect(exchange, units, f"{what} {place}")
    return found


def wait_for_quorum(context: RoundContext, clients: Sequence[int]) -> None:
    """Wait until a quorum of clients is connected, and learn their image counts.

    Waits ``federation.join_timeout`` seconds at most.

    Args:
        context: the run, after its last round.
        clients: those that the stage asks.
    """
    context.sizes.update(context.nodes.wait_for_clients(clients, least(context, clients)))


def check_quorum(
    context: RoundContext, clients: Sequence[int], missing: Mapping[int, str], stage: str, did: str
) -> None:
    """Refuse to go on with too few clients; the run can be resumed when more are connected.

    Args:
        context: the run, after its last round.
        clients: those that the stage should ask.
        missing: by client, why it has not answered.
        stage: the setting that has the stage, for the message.
        did: what the others did, for the message.

    Raises:
        RunFailedError: fewer have answered than ``federation.quorum`` asks for.
    """
    answered, wanted = len(set(clients) - missing.keys()), least(context, clients)
    if answered >= wanted:
        return
    first = next((f"; the first: {missing[client]}" for client in clients if client in missing), "")
    raise RunFailedError(
        f"{stage}: {answered} of {len(clients)} clients {did}, "
        f"and the quorum is {wanted} (federation.quorum){first}"
    )


def least(context: RoundContext, clients: Sequence[int]) -> int:
    """Return how many of the clients must answer: a quorum, and one at least."""
    return max(1, quorum_count(context.experiment.federation.quorum, len(clients)))
