"""When a run ends because too many clients fail."""

import pytest

from server_app.aggregation.client_update import ClientUpdate
from server_app.rounds.callbacks import DESERTED_ROUNDS, EMPTY_ROUNDS, FailurePolicy
from server_app.rounds.errors import RunFailedError
from server_app.rounds.result import RoundResult
from task.training.evaluation import Metrics


def after(policy: FailurePolicy, number: int, *updates: ClientUpdate) -> None:
    scores = Metrics({}, {})
    policy.after_round(RoundResult(number, 100, updates, {}, scores, {}, None, 0.0))


def test_rounds_that_a_clock_leaves_empty_are_no_failures_of_clients() -> None:
    policy = FailurePolicy(20, 1)
    away = ClientUpdate(0, "", reason="it was not available", left_out=True)
    for number in range(1, DESERTED_ROUNDS):
        after(policy, number, away)
    again = FailurePolicy(20, 1)
    again.restore(policy.state())
    with pytest.raises(RunFailedError, match=r"too few clients took part .*; raise rho"):
        after(again, DESERTED_ROUNDS, away)


def test_failures_end_the_run() -> None:
    policy = FailurePolicy(20, 1)
    broken = ClientUpdate(0, "", reason="OSError")
    for number in range(1, EMPTY_ROUNDS):
        after(policy, number, broken)
    with pytest.raises(RunFailedError, match="no clients succeeded, 3 rounds in a row"):
        after(policy, EMPTY_ROUNDS, broken)


def test_an_update_makes_earlier_failures_forgotten() -> None:
    """Both clients have failed, but only one of them since the update."""
    policy = FailurePolicy(2, 1)
    after(policy, 1, ClientUpdate(0, "", reason="OSError"))
    after(policy, 2, ClientUpdate(0, ""))
    after(policy, 3, ClientUpdate(1, "", reason="OSError"))
    assert policy.state()["failed"] == [1]


def test_a_client_that_was_given_up_has_not_failed() -> None:
    policy = FailurePolicy(2, 2)
    failed = ClientUpdate(0, "", reason="OSError")
    after(policy, 1, failed, ClientUpdate(1, "", reason="too few others", given_up=True))
    assert policy.state()["failed"] == [0]
