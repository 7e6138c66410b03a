"""Who takes part: drawn alike, from those available, within a deadline, or from one tier."""

from collections import Counter
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from server_app.config.composition import compose_experiment
from server_app.rounds.devices.devices import UNAVAILABLE, Devices
from server_app.rounds.devices.profiles import HOUR, Population
from server_app.rounds.participation.base import Clients, Cohort, Participation, policy_of
from server_app.rounds.sampling import draw, sample_clients
from task.errors import ConfigError
from task.seeding import numpy_generator

CLIENTS = 200


def clients(participants: int = 20, **changes: Any) -> Clients:
    """Clients whose training takes from seconds to minutes, and their messages no time."""
    fields = {
        "seconds_per_image": 0.1, "speed_sigma": 1.0, "megabits": 1e6, "bandwidth_sigma": 0.0,
        "available_hours": 24.0, "available_spread": 6.0, "dropout": 0.0, **changes,
    }  # fmt: skip
    devices = Devices(Population(**fields).draw(CLIENTS, 0), np.full(CLIENTS, 100), 1, 1, 0.0, 0)
    return Clients(CLIENTS, participants, 0, devices)


@cache
def policy(words: str) -> Participation:
    common = ["clock=virtual", f"num_clients={CLIENTS}", "rho=0.1", "data=mnist"]
    return policy_of(compose_experiment([*common, *words.split()]))


def cohort(words: str, of: Clients, server_round: int = 1, now: float = 0.0) -> Cohort:
    return policy(words).cohort(of, server_round, now)


class TestUniform:
    def test_it_samples_as_without_devices(self) -> None:
        expected = sample_clients(CLIENTS, 0.1, 0, 3)
        assert cohort("participation=uniform", clients(), 3).sampled == expected
        bare = Clients(CLIENTS, 20, 0, None)
        assert cohort("participation=uniform", bare, 3) == Cohort(expected)

    def test_a_round_ends_with_its_slowest_client(self) -> None:
        some = clients()
        assert some.devices is not None
        found = cohort("participation=uniform", some, 1, 100.0)
        seconds = [some.devices.usual_seconds(client) for client in found.sampled]
        assert found.ends == pytest.approx(100 + max(seconds))
        assert list(found.seconds.values()) == pytest.approx(seconds)
        assert not found.left_out

    def test_clients_that_are_not_available_are_left_out(self) -> None:
        found = cohort("participation=uniform", clients(available_hours=12.0), 1, 6 * HOUR)
        assert set(found.left_out.values()) == {UNAVAILABLE}
        assert 0 < len(found.left_out) < 20
        assert sorted([*found.trained, *found.left_out]) == found.sampled

    def test_a_round_of_unavailable_clients_ends_when_one_of_them_comes(self) -> None:
        some = clients(available_hours=0.5, available_spread=1.0)
        assert some.devices is not None
        found = cohort("participation=uniform", some, 1, 12 * HOUR)
        assert found.trained == []
        assert found.ends > 18 * HOUR
        assert some.devices.available(found.ends)[found.sampled].any()


class TestAvailable:
    def test_only_available_clients_are_asked(self) -> None:
        some = clients(available_hours=8.0)
        assert some.devices is not None
        found = cohort("participation=available", some, 1, 2 * HOUR)
        assert len(found.sampled) == 20
        assert some.devices.available(2 * HOUR)[found.sampled].all()

    def test_the_round_begins_when_somebody_is_available(self) -> None:
        some = clients(available_hours=0.5, available_spread=1.0)
        assert some.devices is not None
        found = cohort("participation=available", some, 1, 12 * HOUR)
        assert not some.devices.available(12 * HOUR).any()
        assert found.ends > some.devices.next_available(12 * HOUR) > 12 * HOUR
        assert 1 <= len(found.sampled) < 20


class TestDeadline:
    def test_the_first_updates_count_and_the_round_ends_with_the_last_of_them(self) -> None:
        found = cohort("participation=deadline participation.deadline=1e6", clients())
        assert (len(found.sampled), len(found.trained), len(found.left_out)) == (26, 20, 6)
        assert max(found.seconds[client] for client in found.trained) == found.ends
        assert all(found.seconds[client] == found.ends for client in found.left_out)
        (reason,) = set(found.left_out.values())
        assert reason == f"late: the round ended after {found.ends:.1f} simulated seconds"

    def test_the_deadline_ends_the_round_with_fewer(self) -> None:
        found = cohort("participation=deadline participation.deadline=9", clients(), 1, 50.0)
        assert found.ends == 59
        assert 0 < len(found.trained) < 20

    def test_dropped_clients_are_told_from_late_ones(self) -> None:
        found = cohort("participation=deadline participation.deadline=20", clients(dropout=0.4))
        reasons = Counter(reason.split()[0] for reason in found.left_out.values())
        assert set(reasons) == {"dropped", "late:"}

    def test_a_round_without_waiting_ends_when_everybody_has_answered(self) -> None:
        found = cohort("participation=deadline participation.deadline=1e6", clients(dropout=0.9))
        assert found.ends < 1e5
        assert len(found.trained) < 20


class TestTiers:
    def test_a_round_asks_one_tier_and_all_tiers_have_their_turn(self) -> None:
        some = clients()
        assert some.devices is not None
        order = np.argsort(some.devices.usual_seconds())
        tier_of = {int(client): place // 50 for place, client in enumerate(order)}
        used: Counter[int] = Counter()
        for server_round in range(1, 81):
            found = cohort("participation=tiers", some, server_round)
            (tier,) = {tier_of[client] for client in found.sampled}
            used[tier] += 1
        assert set(used) == {0, 1, 2, 3}
        assert min(used.values()) > 8

    def test_a_tier_must_have_enough_clients(self) -> None:
        words = ["clock=virtual", "participation=tiers", "num_clients=10", "rho=0.5"]
        with pytest.raises(ConfigError, match="leaves 2 of 10 clients in a tier, and a round"):
            compose_experiment(words)
        assert compose_experiment([*words, "participation.tiers=2"])


class TestDraw:
    def test_only_candidates_are_drawn(self) -> None:
        generator = numpy_generator(0, "test")
        assert draw(generator, 6, 10, np.array([1, 0, 1, 1, 0, 1], dtype=bool)) == [0, 2, 3, 5]
        assert draw(generator, 6, 3, np.zeros(6, dtype=bool)) == []

    @pytest.mark.parametrize("candidates", [None, np.ones(100, dtype=bool)])
    def test_if_all_may_be_drawn_it_is_a_rounds_sample(
        self, candidates: NDArray[np.bool_] | None
    ) -> None:
        generator = numpy_generator(7, "participation", 3)
        assert draw(generator, 100, 30, candidates) == sample_clients(100, 0.3, 7, 3)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("participation=available", "needs simulated devices: add clock=virtual"),
        ("participation=deadline", "needs simulated devices"),
        (
            "participation=available clock=virtual privacy=example model.norm=group method=fedavg",
            "counts on clients that are sampled alike; add participation=uniform",
        ),
        (
            "participation=available clock=virtual strategy=dp_fixed model.norm=group",
            "strategy=dp_fixed counts on clients that are sampled alike",
        ),
        ("clock=virtual secure=masked num_clients=20", "not yet with secure=masked"),
    ],
)
def test_what_does_not_fit_is_refused(words: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        compose_experiment(words.split())
