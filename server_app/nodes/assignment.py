"""Which worker trains which of a round's clients."""

from collections.abc import Sequence
from dataclasses import dataclass

from server_app.nodes.registration import NodeInfo


@dataclass(frozen=True)
class WorkUnit:
    """Clients that one worker trains or scores one after another, for one message.

    Attributes:
        node: the worker.
        clients: the clients' numbers.
    """

    node: NodeInfo
    clients: list[int]


def assign_clients(
    clients: Sequence[int],
    sizes: Sequence[int],
    nodes: Sequence[NodeInfo],
    clients_per_message: int,
) -> list[WorkUnit]:
    """Divide clients among workers so that the workers finish at about the same time.

    The largest client goes first, each to the worker with the least work of those that can train
    it. A client's result does not depend on the assignment.

    Args:
        clients: the clients; those that no node can train are left out.
        sizes: the amount of work of each client, indexed by client.
        nodes: the workers.
        clients_per_message: a worker's clients are cut into messages of at most so many.
    """
    shares: list[list[int]] = [[] for _ in nodes]
    loads = [0] * len(nodes)
    for client in sorted(clients, key=lambda client: (-sizes[client], client)):
        able = [place for place, node in enumerate(nodes) if node.serves(client)]
        if able:
            place = min(able, key=lambda place: loads[place])
            shares[place].append(client)
            loads[place] += sizes[client]
    return [
        WorkUnit(node, share[start : start + clients_per_message])
        for node, share in zip(nodes, shares, strict=True)
        for start in range(0, len(share), clients_per_message)
    ]


def served_clients(clients: Sequence[int], nodes: Sequence[NodeInfo]) -> list[int]:
    """Return those of the clients that one of the nodes can train."""
    return [client for client in clients if any(node.serves(client) for node in nodes)]


def units_of_served(
    clients: Sequence[int], sizes: Sequence[int], nodes: Sequence[NodeInfo]
) -> list[WorkUnit]:
    """Return one unit for each worker that has some of these clients; absent ones are in none.

    Args:
        clients: whom to ask.
        sizes: by client, the amount of its work.
        nodes: the SuperNodes that are connected.
    """
    return assign_clients(clients, sizes, nodes, max(1, len(clients)))
