"""Which machines of a Ray cluster a run may count on."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from univarfl.engines.cluster import answering_nodes
from univarfl.flower.programs import free_ports


@pytest.fixture
def listening() -> Iterator[int]:
    """Return a port on which this process listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def node(port: int, *, alive: bool = True) -> dict[str, Any]:
    return {"NodeManagerAddress": "127.0.0.1", "NodeManagerPort": port, "Alive": alive}


def test_a_node_that_does_not_answer_is_not_counted(listening: int) -> None:
    closed = free_ports(1)[0]
    views = iter([[node(listening), node(closed)], [node(listening), node(closed, alive=False)]])
    assert answering_nodes(lambda: next(views)) == [node(listening)]


def test_a_node_that_stays_silent_is_named(listening: int) -> None:
    closed = free_ports(1)[0]
    with pytest.raises(ConnectionError, match=f"machine 127.0.0.1:{closed} does not answer"):
        answering_nodes(lambda: [node(listening), node(closed)], seconds=0.0)
