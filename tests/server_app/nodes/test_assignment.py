"""Which worker trains which client."""

from hypothesis import given
from hypothesis import strategies as st

from server_app.nodes.assignment import assign_clients
from server_app.nodes.registration import NodeInfo


def nodes(count: int) -> list[NodeInfo]:
    return [NodeInfo(100 + index, index, "cpu", "process", "host") for index in range(count)]


@given(
    sizes=st.lists(st.integers(1, 1000), min_size=1, max_size=50),
    workers=st.integers(1, 8),
    most=st.integers(1, 20),
)
def test_work_units_hold_every_client_once_and_respect_the_message_limit(
    sizes: list[int], workers: int, most: int
) -> None:
    clients = list(range(len(sizes)))
    units = assign_clients(clients, sizes, nodes(workers), most)
    assert sorted(client for unit in units for client in unit.clients) == clients
    assert all(1 <= len(unit.clients) <= most for unit in units)


def test_workers_get_about_the_same_load_longest_client_first() -> None:
    """Sizes 7, 5, 4, 3, 1 over two workers: 7+3 and 5+4+1 (longest first, to the least loaded)."""
    units = assign_clients(range(5), [1, 7, 5, 3, 4], nodes(2), 10)
    assert [unit.clients for unit in units] == [[1, 3], [2, 4, 0]]


def test_a_site_is_given_its_own_client_and_no_other() -> None:
    sites = [
        NodeInfo(100 + index, index, "cpu", "process", "host", site=name, train=5, validation=1)
        for index, name in enumerate(["clinic", "hospital", "practice"])
    ]
    units = assign_clients([0, 2], [10, 20, 500], sites, 10)
    assert [(unit.node.name, unit.clients) for unit in units] == [
        ("clinic", [0]), ("practice", [2]),
    ]  # fmt: skip
