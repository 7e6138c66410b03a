"""When simulated clients start, and in which order their updates arrive."""

import numpy as np
import pytest

from server_app.config.composition import compose_experiment
from server_app.rounds.devices.devices import Devices
from server_app.rounds.devices.profiles import DAY, HOUR, Profiles
from server_app.rounds.pace.virtual_arrivals import VirtualArrivals
from server_app.rounds.participation.base import Clients, policy_of

WORDS = ["strategy=fedbuff", "clock=virtual", "num_clients=4", "strategy.buffer_size=1"]


def arrivals(policy: str) -> VirtualArrivals:
    """One device that is always available and needs ten hours, and three from hour 1 on."""
    devices = Devices(
        Profiles(
            np.array([36_000.0, 36.0, 72.0, 108.0]), np.full(4, 1e12), np.array([0, *[HOUR] * 3]),
            np.array([DAY, *[8 * HOUR] * 3]), np.zeros(4),
        ),
        np.ones(4, np.int64), 1, 1, 0.0, 0,
    )  # fmt: skip
    policies = policy_of(compose_experiment([*WORDS, f"participation={policy}"]))
    return VirtualArrivals(Clients(4, 4, 0, devices), policies, devices, lambda jobs: iter(()))


def test_a_client_starts_when_it_becomes_available_and_not_with_the_next_arrival() -> None:
    some = arrivals("available")
    list(some.take(1, 1, []))
    assert some.now == pytest.approx(HOUR + 36)
    assert [job["client"] for job in some.state()["running"]] == [0, 2, 3]


def test_clients_that_are_asked_at_once_start_at_once() -> None:
    some = arrivals("uniform")
    (left_out,) = some.take(1, 1, [])
    assert {job.client for job in left_out.jobs} == {1, 2, 3}  # they were not available
    assert some.now == 36_000
