"""Sums of models: equal bits in any order and grouping, and close to the exact mean."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from task.errors import TrainingError
from task.exact_sum import ExactSum, exponent, normalise_weights


def models(seed: int, clients: int, scale: float) -> list[dict[str, Tensor]]:
    generator = np.random.default_rng(seed)
    return [
        {
            "w": torch.from_numpy(generator.normal(0, scale, 20).astype(np.float32)),
            "tiny": torch.from_numpy(generator.normal(0, 1e-6, 3).astype(np.float32)),
            "count": torch.tensor(int(generator.integers(100))),
        }
        for _ in range(clients)
    ]


@given(
    seed=st.integers(0, 2**32), clients=st.integers(1, 40), scale=st.sampled_from([1e-3, 1.0, 1e5])
)
def test_any_order_and_grouping_gives_the_same_bits_and_the_mean(
    seed: int, clients: int, scale: float
) -> None:
    given = models(seed, clients, scale)
    generator = np.random.default_rng(seed + 1)
    weights = {client: float(generator.integers(1, 500)) for client in range(clients)}
    shares = normalise_weights(weights)

    def total(order: list[int], workers: int) -> ExactSum:
        whole = ExactSum(given[0])
        for worker in range(workers):
            own = ExactSum(given[0])
            for client in order[worker::workers]:
                own.add(own.to_fixed_point(given[client], shares[client]))
            whole.add(own.totals)
        return whole

    results = [
        total(generator.permutation(clients).tolist(), workers).mean(math.fsum(shares.values()))
        for workers in (1, 2, 7)
    ]
    for name in ("w", "tiny", "count"):
        assert all(torch.equal(results[0][name], result[name]) for result in results)
    for name in ("w", "tiny"):
        wide = np.stack([model[name].double().numpy() for model in given])
        expected = np.average(wide, axis=0, weights=list(weights.values()))
        unit = 2.0 ** (exponent(given[0][name]) - 46)
        assert results[0][name].numpy() == pytest.approx(expected, rel=1e-15, abs=clients * unit)
    assert results[0]["count"] == max(model["count"] for model in given)


def test_numbers_may_grow_by_16_bits_and_no_further() -> None:
    start = {"w": torch.zeros(2), "v": torch.full((2,), 1000.0)}
    total = ExactSum(start)
    total.add(
        total.to_fixed_point({"w": torch.full((2,), 65_535.0), "v": torch.full((2,), -6e7)}, 1.0)
    )
    assert torch.equal(total.mean(1.0)["w"], torch.full((2,), 65_535.0, dtype=torch.float64))
    for wrong in (65_536.0, -1e30, math.inf, math.nan):
        with pytest.raises(TrainingError, match=r"w has numbers beyond 65,536"):
            total.to_fixed_point({"w": torch.tensor([0.0, wrong])}, 1.0)


@pytest.mark.parametrize(
    ("value", "power"), [([], 0), ([0.0], 0), ([0.3], 0), ([1.0], 1), ([-3.0, 1.0], 2), ([8.0], 4)]
)
def test_the_exponent_bounds_every_number(value: list[float], power: int) -> None:
    assert exponent(torch.tensor(value)) == power


def test_shares_are_parts_of_the_whole_and_0_of_nothing() -> None:
    assert normalise_weights({3: 1.0, 5: 3.0}) == {3: 0.25, 5: 0.75}
    assert normalise_weights({3: 0.0}) == {3: 0.0}
