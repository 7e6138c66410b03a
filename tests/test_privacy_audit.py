"""An attack with canaries: it finds less than the claimed epsilon, and more without noise."""

import pytest

from benchmarks.privacy_audit import audit, audit_clients, lower_bound


def test_the_lower_bound_by_hand() -> None:
    """20 of 20 right guesses have a probability of 5 % if one has 0.05^(1/20) = 0.861."""
    assert lower_bound(20, 20, 0.95) == pytest.approx(1.823, abs=0.002)
    assert lower_bound(10, 20, 0.95) == 0


@pytest.mark.slow
def test_canaries_show_no_more_than_claimed_and_the_leak_without_noise() -> None:
    with_noise, without = audit(5.0), audit(0.0)
    assert with_noise.found <= with_noise.claimed < 2
    assert without.found > with_noise.claimed


@pytest.mark.slow
def test_canary_clients_show_no_more_than_claimed_and_the_leak_without_noise() -> None:
    with_noise, without = audit_clients(2.0), audit_clients(0.0)
    assert with_noise.found <= with_noise.claimed < 3
    assert without.right == without.guesses >= 100
    assert without.found > with_noise.claimed
