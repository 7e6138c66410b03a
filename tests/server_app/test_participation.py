"""Who takes part, and who trains them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server_app.handshake import Seat
from server_app.participation import assign, participant_count, participants


def seats(count: int) -> list[Seat]:
    return [Seat(100 + index, index, "cpu", "process", "host") for index in range(count)]


@pytest.mark.parametrize(
    ("num_clients", "rho", "count"),
    [
        (100, 0.29, 29),  # int(0.29 * 100) is 28
        (10, 0.25, 3),  # 2.5, halves up
        (10, 0.05, 1),
        (10, 0.01, 1),  # never nobody
        (10, 0.3, 3),
        (4, 0.25, 1),
        (1, 1.0, 1),
        (1000, 1.0, 1000),
        (30, 0.15, 5),  # 4.5 as a decimal, below it as a float
    ],
)
def test_the_count_is_that_of_the_decimal(num_clients: int, rho: float, count: int) -> None:
    assert participant_count(num_clients, rho) == count
    assert len(participants(num_clients, rho, 0, 1)) == count


def test_sampling_follows_seed_and_round_alone() -> None:
    drawn = [participants(100, 0.1, 0, r) for r in range(1, 6)]
    assert drawn == [participants(100, 0.1, 0, r) for r in range(1, 6)]
    assert len({tuple(clients) for clients in drawn}) == 5
    assert participants(100, 0.1, 1, 1) != drawn[0]
    assert all(clients == sorted(set(clients)) for clients in drawn)


def test_every_client_is_drawn_about_equally_often() -> None:
    """2,000 rounds of 3 in 10: 600 times each, standard deviation sqrt(2000 * .3 * .7) = 20.5."""
    counts = [0] * 10
    for server_round in range(2000):
        for client in participants(10, 0.3, 0, server_round):
            counts[client] += 1
    assert all(abs(count - 600) < 5 * 20.5 for count in counts)


@given(
    sizes=st.lists(st.integers(1, 1000), min_size=1, max_size=50),
    workers=st.integers(1, 8),
    most=st.integers(1, 20),
)
def test_cohorts_hold_every_client_once_and_respect_the_message_limit(
    sizes: list[int], workers: int, most: int
) -> None:
    clients = list(range(len(sizes)))
    cohorts = assign(clients, sizes, seats(workers), most)
    assert sorted(client for cohort in cohorts for client in cohort.clients) == clients
    assert all(1 <= len(cohort.clients) <= most for cohort in cohorts)


def test_workers_get_about_the_same_load_longest_client_first() -> None:
    """Sizes 7, 5, 4, 3, 1 over two workers: 7+3 and 5+4+1 (longest first, to the least loaded)."""
    cohorts = assign(range(5), [1, 7, 5, 3, 4], seats(2), 10)
    assert [cohort.clients for cohort in cohorts] == [[1, 3], [2, 4, 0]]


def test_a_site_is_given_its_own_client_and_no_other() -> None:
    sites = [
        Seat(100 + index, index, "cpu", "process", "host", site=name, train=5, validation=1)
        for index, name in enumerate(["clinic", "hospital", "practice"])
    ]
    cohorts = assign([0, 2], [10, 20, 500], sites, 10)
    assert [(cohort.seat.name, cohort.clients) for cohort in cohorts] == [
        ("clinic", [0]), ("practice", [2]),
    ]  # fmt: skip
