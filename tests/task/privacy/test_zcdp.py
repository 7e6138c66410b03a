"""The cost of distributed noise, by two accountants; and the noise of several participants."""

import math

import numpy as np
import pytest
import torch
from dp_accounting import ZCDpEvent, get_epsilon_gaussian
from dp_accounting.rdp import RdpAccountant
from scipy.optimize import brentq

from task.privacy.participant import add_noise, clip_integers
from task.privacy.zcdp import gaussian_rho, participant_sigma, zcdp_epsilon
from task.secure.vectors.rounded_sum import RoundedSum
from task.secure.vectors.rounding import UNIT
from task.seeding import repeatable_bytes

CASES = [(0.5, 3, 1e-5), (1.0, 12, 1e-5), (4.0, 12, 1e-5), (10.0, 100, 1e-6), (30.0, 10, 1e-3)]


def log_delta_of(rho: float, epsilon: float) -> float:
    """Return the logarithm of the smallest delta: Canonne, Kamath, Steinke, Corollary 13."""
    alphas = 1 + np.exp(np.linspace(-12, 12, 200_001))
    exponent_of = (alphas - 1) * (alphas * rho - epsilon) + alphas * np.log1p(-1 / alphas)
    return float(np.min(exponent_of - np.log(alphas - 1)))


@pytest.mark.parametrize(("multiplier", "rounds", "delta"), CASES)
def test_epsilon_is_that_of_a_second_implementation(
    multiplier: float, rounds: int, delta: float
) -> None:
    """The one minimises epsilon over orders, the other delta over a grid of orders."""
    rho = gaussian_rho(multiplier, rounds)
    ours = zcdp_epsilon(rho, delta)
    other = brentq(lambda epsilon: log_delta_of(rho, epsilon) - math.log(delta), 0, 500)
    assert ours == pytest.approx(other, rel=1e-4)
    accountant = RdpAccountant()
    accountant.compose(ZCDpEvent(rho))
    assert ours == pytest.approx(accountant.get_epsilon(delta), rel=2e-3)


@pytest.mark.parametrize(("multiplier", "rounds", "delta"), CASES)
def test_it_is_an_upper_bound_close_to_the_exact_epsilon(
    multiplier: float, rounds: int, delta: float
) -> None:
    exact = get_epsilon_gaussian(multiplier / math.sqrt(rounds), delta)
    assert exact < zcdp_epsilon(gaussian_rho(multiplier, rounds), delta) < 1.2 * exact


def test_nothing_released_costs_nothing() -> None:
    assert zcdp_epsilon(0.0, 1e-5) == 0
    assert gaussian_rho(2.0, 3) == pytest.approx(3 / 8)


@pytest.mark.parametrize(("participants", "colluding"), [(7, 2), (10, 3), (2, 0)])
def test_a_sum_has_enough_noise_with_the_fewest_participants_and_more_with_others(
    participants: int, colluding: int
) -> None:
    honest = participants - colluding
    own = participant_sigma(5.0, honest)
    assert own * math.sqrt(honest) == pytest.approx(5.0)
    assert own * math.sqrt(honest + 1) > 5.0
    assert own * math.sqrt(honest - 1) < 5.0


def test_noise_of_colluding_participants_alone_protects_nobody() -> None:
    with pytest.raises(ValueError, match="at least 1 must"):
        participant_sigma(1.0, 0)


START = {"w": torch.linspace(-3, 3, 4000).reshape(40, 100), "b": torch.full((500,), 0.01)}


def in_units(values: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return RoundedSum(START, "nearest").to_fixed_point(values, 1.0, bytes(32))


def length(update: dict[str, torch.Tensor]) -> float:
    """Return the exact norm of an update, in the units of the model."""
    numbers = [number for value in update.values() for number in value.flatten().tolist()]
    return math.sqrt(sum(number**2 for number in numbers)) * UNIT


@pytest.mark.parametrize("scale", [1e-6, 1.0, 5.0])
def test_a_clipped_update_is_never_longer_than_the_bound(scale: float) -> None:
    max_norm = 0.5
    generator = torch.Generator().manual_seed(0)
    model = {
        name: (value + scale * torch.randn(value.shape, generator=generator)).clamp(-15, 15)
        for name, value in START.items()
    }
    update = in_units(model)
    clipped = clip_integers(update, UNIT, max_norm)
    if scale < 1e-3:
        assert all(torch.equal(clipped[name], update[name]) for name in update)
    else:
        assert 0.999 * max_norm < length(clipped) <= max_norm
        moved, given = clipped["w"].double(), update["w"].double()
        assert torch.corrcoef(torch.stack([moved.flatten(), given.flatten()]))[0, 1] > 0.999999


def test_rounding_does_not_lengthen_an_update_of_small_numbers() -> None:
    """Each of 10,000 numbers becomes 0.6 of a unit; to the nearest, it would stay 1."""
    update = {"w": torch.ones(10_000, dtype=torch.int64)}
    clipped = clip_integers(update, 1.0, 60.0)
    assert float(clipped["w"].double().norm()) <= 60.0


def test_the_noise_of_several_participants_adds_up_in_fixed_point() -> None:
    """Seven of eight participants answer; the mean has the noise of seven, in every tensor."""
    sigma, answered = 0.3, 7
    own = participant_sigma(sigma, 5)
    total = RoundedSum(START, "nearest")
    for place in range(answered):
        total.add(add_noise(in_units(START), UNIT, own, repeatable_bytes(place)))
    mean = total.mean(answered)
    for name, value in START.items():
        noise = (mean[name] - value.double()) * answered
        expected = own * math.sqrt(answered)
        assert expected > sigma
        assert float(noise.std()) == pytest.approx(expected, rel=0.1)


def test_noise_differs_from_tensor_to_tensor_and_from_call_to_call() -> None:
    update = in_units(START)
    first, second = (add_noise(update, UNIT, 1.0) for _ in range(2))
    assert not torch.equal(first["w"], second["w"])
    assert not torch.equal(first["w"].flatten()[:500], first["b"])
