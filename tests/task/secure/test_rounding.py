"""Rounding for masked sums: unbiased, on no grid of a client's own, and not to be decoded."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from task.config import Secure
from task.errors import ProtocolError, TrainingError
from task.exact_sum import ExactSum, new_sum, relative_weights
from task.secure.transcript import weights_hash
from task.secure.vectors.rounded_sum import LARGEST, RoundedSum, check_numbers
from task.secure.vectors.rounding import (
    COVERED,
    FLOAT32,
    UNIT,
    Nearest,
    Reals,
    Stochastic,
    ulps_of,
)

COUNTS = {0: 997.0, 1: 1203.0}  # without a common factor
ULP = 2.0**-24  # of numbers in [0.5, 1)
NUMBERS = 5_000


def keys(count: int, seed: int = 0) -> list[bytes]:
    rng = np.random.default_rng(seed)
    return [rng.bytes(32) for _ in range(count)]


def updates(deviation: float) -> tuple[dict[str, torch.Tensor], list[dict[str, torch.Tensor]]]:
    """Return a start, and what two clients make of it."""
    rng = np.random.default_rng(1)
    start = torch.from_numpy(rng.uniform(0.52, 0.98, NUMBERS)).float()
    moved = [torch.from_numpy(rng.normal(0, deviation, NUMBERS)) for _ in COUNTS]
    return {"w": start}, [{"w": (start + each).float()} for each in moved]


def in_ulps(start: dict[str, torch.Tensor], model: dict[str, torch.Tensor]) -> Reals:
    steps: Reals = ((model["w"].double() - start["w"].double()) / ULP).numpy()
    return steps


def decoded(weighted: Reals) -> Reals:
    """Return client 0's updates by the inverse of its count, from the sum of count * ulps."""
    modulus, count = int(COUNTS[1]), int(COUNTS[0])
    whole = np.rint(weighted).astype(np.int64) % modulus
    first = whole * pow(count, -1, modulus) % modulus
    return np.where(first > modulus // 2, first - modulus, first).astype(np.float64)


def test_an_exact_sum_of_two_clients_is_decoded_and_a_rounded_one_is_not() -> None:
    """The attack itself: weights are known, and trained weights lie on the grid of float32."""
    start, models = updates(1e-5)
    truth, total = in_ulps(start, models[0]), sum(COUNTS.values())
    exact, rounded = ExactSum(start), RoundedSum(start, "stochastic")
    weights = relative_weights(COUNTS)
    for client, (model, key) in enumerate(zip(models, keys(2), strict=True)):
        exact.add(exact.to_fixed_point(model, COUNTS[client] / total))
        rounded.add(rounded.to_fixed_point(model, weights[client], key))
    found = (exact.mean(1.0)["w"] - start["w"].double()).numpy() * total / ULP
    assert (decoded(found) == truth).mean() > 0.99
    found = rounded.totals["w"].numpy() * (UNIT * max(COUNTS.values()) / ULP)
    assert (decoded(found) == truth).mean() < 0.01


@pytest.mark.parametrize("large", [2.0**18, 1.0])
def test_the_start_does_not_decide_which_client_moves_the_sum(large: float) -> None:
    """The lie itself: a large number in the tensor, and weights at a boundary of one client.

    The sum of four tells the sign of client 0's update no better than the sum of their updates.
    """
    counts = {0: 440.0, 1: 154.0, 2: 300.0, 3: 189.0}
    weights, rng = relative_weights(counts), np.random.default_rng(2)
    boundary = 0.5 * UNIT * 2**17 / weights[0]  # of the unit that an exact sum would have had
    start = torch.full((NUMBERS,), boundary) * torch.from_numpy(rng.choice([1, 3, 5], NUMBERS))
    start[0] = large
    moved = [torch.from_numpy(rng.normal(0, 1e-5, NUMBERS)).float() for _ in counts]
    total = RoundedSum({"w": start}, "stochastic")
    for client, (step, key) in enumerate(zip(moved, keys(4), strict=True)):
        total.add(total.to_fixed_point({"w": start + step}, weights[client], key))
    steps = [((start + step) - start).numpy()[1:] for step in moved]
    real = sum(weights[client] * step for client, step in enumerate(steps))
    signs = np.sign(total.totals["w"].numpy()[1:])
    there = steps[0] != 0
    found = (signs == np.sign(steps[0]))[there].mean()
    plain = (np.sign(real) == np.sign(steps[0]))[there].mean()
    assert found <= plain + 0.02
    assert plain < 0.85


def test_random_rounding_has_no_bias_and_the_variance_of_a_coin() -> None:
    for value in (0.0, 0.25, 3.5, -0.125, -7.9):
        fraction = value - math.floor(value)
        none = np.zeros(20_000)
        found = np.concatenate([Stochastic(key)(none + value, none, none) for key in keys(5)])
        deviation = math.sqrt(fraction * (1 - fraction) / len(found))
        assert found.mean() == pytest.approx(value, abs=5 * deviation + 1e-12)
        assert set(found) <= {math.floor(value), math.ceil(value)}


@pytest.mark.parametrize("ulp", [2.0, 64.0, 2.0**12])
@pytest.mark.parametrize("rule", [Stochastic, Nearest])
def test_numbers_on_a_coarse_grid_are_spread_over_it(
    rule: type[Stochastic] | type[Nearest], ulp: float
) -> None:
    """The low bits of a large number hide those of the others, and its mean stays."""
    none = np.zeros(30_000)
    found = rule(keys(1)[0])(none + 3 * ulp, none, none + ulp)
    assert found.mean() == pytest.approx(3 * ulp, abs=5 * ulp / math.sqrt(12 * len(found)))
    low = np.mod(found, ulp)
    assert np.bincount((low * 2 // ulp).astype(int)).min() > 0.45 * len(found)
    assert found.min() >= 2.5 * ulp - 1
    assert found.max() <= 3.5 * ulp + 1


def test_random_rounding_covers_many_ulps_of_the_start() -> None:
    """So as many copies of a number in one model do not average it out."""
    none = np.zeros(30_000)
    found = Stochastic(keys(1)[0])(none, none + 1.0, none + 1.0)
    assert found.std() == pytest.approx(COVERED / math.sqrt(12), rel=0.02)
    assert found.mean() == pytest.approx(0, abs=5 * COVERED / math.sqrt(12 * len(found)))


def test_a_number_on_a_coarse_grid_does_not_uncover_a_small_one() -> None:
    """One client's weight grew to about 1,000, the other's by a few units."""
    rng = np.random.default_rng(3)
    start = {"w": torch.zeros(NUMBERS)}
    large = torch.from_numpy(rng.uniform(512, 1024, NUMBERS)).float()
    small = torch.from_numpy(rng.normal(0, 10 * UNIT, NUMBERS)).float()
    grid = 2.0**-14 / UNIT
    truth = np.rint(small.double().numpy() / UNIT)

    def guessed(parts: list[Reals]) -> float:
        low = np.mod(sum(parts), grid)
        return float((np.where(low > grid / 2, low - grid, low) == truth).mean())

    plain = [np.rint(each.double().numpy() / UNIT) for each in (large, small)]
    assert guessed(plain) > 0.9
    total = RoundedSum(start, "stochastic")
    random = [
        total.to_fixed_point({"w": each}, 1.0, key)["w"].double().numpy()
        for each, key in zip((large, small), keys(2), strict=True)
    ]
    assert guessed(random) < 0.05


@given(st.floats(2.0**-30, 2.0**20))
def test_an_ulp_is_the_distance_to_the_next_float32(value: float) -> None:
    number = np.float32(value)
    (found,) = ulps_of(np.array([number]), FLOAT32)
    assert found == np.nextafter(number, np.float32(np.inf)) - number


def test_nearest_draws_for_numbers_from_16_alone() -> None:
    """A number that crosses 16 does not make a training fail, which would tell of its images."""
    for start, trained, drawn in ((-15.9, 15.9, False), (0, 16, True), (16, 15.9, True)):
        total = RoundedSum({"w": torch.full((100,), float(start))}, "nearest")
        model = {"w": torch.full((100,), float(trained))}
        first, second = (total.to_fixed_point(model, 1.0, key)["w"] for key in keys(2))
        assert torch.equal(first, second) is not drawn
        assert (first.double() * UNIT).mean().item() == pytest.approx(trained - start, abs=UNIT)


@pytest.mark.parametrize("rule", ["stochastic", "nearest"])
@pytest.mark.parametrize("number", [LARGEST, -LARGEST, math.inf, math.nan])
def test_numbers_without_a_bound_are_refused(rule: str, number: float) -> None:
    whole = torch.tensor([0.5, number])
    secure = Secure(mode="masked", rounding=rule)  # type: ignore[arg-type]
    with pytest.raises(TrainingError, match="w has numbers beyond 1,048,576"):
        new_sum(secure, {"w": torch.zeros(2)}).to_fixed_point({"w": whole}, 1.0, keys(1)[0])
    with pytest.raises(ProtocolError, match="the model has numbers of 1,048,576 or more in w"):
        check_numbers({"w": whole, "n": torch.tensor(2**40), "e": torch.zeros(0)})


def test_the_mean_is_that_of_the_models_and_counters_keep_their_value() -> None:
    start = {"w": torch.randn(3, 4, 5), "n": torch.tensor(7), "e": torch.zeros(0, 2)}
    models = [{"w": start["w"] + step, "n": torch.tensor(9), "e": start["e"]} for step in (1, -3)]
    for rule in ("stochastic", "nearest"):
        total = RoundedSum(start, rule)
        for model, weight, key in zip(models, (1.0, 0.25), keys(2), strict=True):
            total.add(total.to_fixed_point(model, weight, key))
        mean = total.mean(1.25)
        assert torch.allclose(mean["w"], start["w"].double() + 0.2, atol=1e-3)
        assert mean["n"].item() == 7
        assert mean["e"].shape == (0, 2)


def test_the_bits_do_not_depend_on_the_order_or_the_memory_format() -> None:
    rng = torch.Generator().manual_seed(0)
    start = {name: torch.randn(2, 3, 4, 5, generator=rng) for name in ("b", "a")}
    models = [{n: v + 0.01 * torch.randn_like(v) for n, v in start.items()} for _ in range(3)]
    parts = zip(models, keys(3), strict=True)
    one, other = RoundedSum(start, "stochastic"), RoundedSum(start, "stochastic")
    for model, key in parts:
        one.add(one.to_fixed_point(model, 1.0, key))
    for model, key in reversed(list(zip(models, keys(3), strict=True))):
        turned = {n: model[n].to(memory_format=torch.channels_last) for n in sorted(model)}
        other.add(other.to_fixed_point(turned, 1.0, key))
    assert all(torch.equal(one.totals[name], other.totals[name]) for name in start)


def test_the_hash_of_weights_names_values_and_not_their_form() -> None:
    weights = {"w": torch.randn(2, 3, 4, 4), "n": torch.tensor(3), "z": torch.zeros(2)}
    same = {
        "z": torch.tensor([0.0, -0.0]),
        "n": weights["n"].clone(),
        "w": weights["w"].to(memory_format=torch.channels_last),
    }
    assert weights_hash(weights) == weights_hash(same)
    others = [
        {**weights, "z": torch.zeros(2, 1)},
        {**weights, "z": torch.zeros(2, dtype=torch.float64)},
        {**weights, "n": torch.tensor(4)},
        {**weights, "y": torch.zeros(0)},
        {"w": weights["w"], "n": weights["n"], "y": weights["z"]},
    ]
    assert len({weights_hash(each) for each in (weights, *others)}) == len(others) + 1
