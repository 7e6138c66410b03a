"""Which clients take part in a round."""

import pytest

from server_app.rounds.sampling import (
    Draws,
    clients_to_score,
    draw,
    drawing,
    participant_count,
    quorum_count,
    sample_clients,
)


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
        (30, 0.15, 5),  # 4.5, halves up
        (50, 0.29, 15),  # 14.5 as a decimal, below it as a float
    ],
)
def test_the_count_is_that_of_the_decimal(num_clients: int, rho: float, count: int) -> None:
    assert participant_count(num_clients, rho) == count
    assert len(sample_clients(num_clients, rho, 0, 1)) == count


def test_sampling_follows_seed_and_round_alone() -> None:
    drawn = [sample_clients(100, 0.1, 0, r) for r in range(1, 6)]
    assert drawn == [sample_clients(100, 0.1, 0, r) for r in range(1, 6)]
    assert len({tuple(clients) for clients in drawn}) == 5
    assert sample_clients(100, 0.1, 1, 1) != drawn[0]
    assert all(clients == sorted(set(clients)) for clients in drawn)


def test_every_client_is_drawn_about_equally_often() -> None:
    """2,000 rounds of 3 in 10: 600 times each, standard deviation sqrt(2000 * .3 * .7) = 20.5."""
    counts = [0] * 10
    for server_round in range(2000):
        for client in sample_clients(10, 0.3, 0, server_round):
            counts[client] += 1
    assert all(abs(count - 600) < 5 * 20.5 for count in counts)


@pytest.mark.parametrize(
    ("quorum", "clients", "count"), [(0.0, 10, 0), (0.5, 5, 3), (0.29, 100, 29), (1.0, 7, 7)]
)
def test_a_quorum_is_counted_from_the_decimal(quorum: float, clients: int, count: int) -> None:
    assert quorum_count(quorum, clients) == count


def test_of_many_clients_a_sample_scores_the_final_model() -> None:
    assert clients_to_score(1000, 0) == list(range(1000))
    found = clients_to_score(5000, 0)
    assert len(set(found)) == 1000
    assert found == sorted(found) == clients_to_score(5000, 0) != clients_to_score(5000, 1)


def test_draws_of_one_round_differ_and_the_first_is_that_of_a_round_with_one() -> None:
    draws = Draws(seed=4)
    found = [draw(draws.of_round(3), 1000, 5) for _ in range(3)]
    assert found[0] == draw(drawing(4, 3), 1000, 5)
    assert len({tuple(clients) for clients in found}) == 3
    assert draw(draws.of_round(4), 1000, 5) == draw(drawing(4, 4), 1000, 5)
