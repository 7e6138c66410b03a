"""Samples of the discrete Gaussian: their distribution, exactness and source."""

import hashlib
import math
import os
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import torch
from opendp.domains import atom_domain, vector_domain
from opendp.measurements import make_gaussian
from opendp.metrics import l2_distance
from opendp.mod import enable_features
from scipy.stats import chisquare, kstest, norm

from task.privacy import discrete_gaussian as module
from task.privacy.discrete_gaussian import (
    ERROR,
    U_BITS,
    accepted_exactly,
    discrete_gaussian,
    exponent_bound,
)
from task.seeding import repeatable_bytes, secret_bytes

SIGMAS = [0.3, 0.5, 0.99, 1.0, 1.5, 2.0, 3.99, 10.5, 200.0]
LARGE = [2.0**20, 2.0**35, 1.99 * 2.0**35, 2.0**56]


def probabilities(sigma: float, most: int) -> np.ndarray:
    """Return the probabilities of -most to most, which hold nearly all."""
    weights = np.exp(-np.square(np.arange(-most, most + 1) / sigma) / 2)
    return np.asarray(weights / weights.sum())


def grouped(observed: np.ndarray, expected: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return counts in groups that are expected to hold at least 20 each."""
    edges, total = [0], 0.0
    for at, value in enumerate(expected):
        total += value
        if total >= 20 and expected[at + 1 :].sum() >= 20:
            edges.append(at + 1)
            total = 0.0
    return np.add.reduceat(observed, edges), np.add.reduceat(expected, edges)


@pytest.mark.parametrize("sigma", SIGMAS)
def test_each_integer_has_its_probability(sigma: float) -> None:
    count, most = 400_000, math.ceil(12 * sigma) + 12
    drawn = discrete_gaussian(sigma, count, repeatable_bytes(1, str(sigma)))
    assert np.abs(drawn).max() <= most
    observed = np.bincount(drawn + most, minlength=2 * most + 1).astype(float)
    assert chisquare(*grouped(observed, count * probabilities(sigma, most))).pvalue > 1e-3


def test_a_slightly_wrong_sigma_fails_the_same_test() -> None:
    count, sigma, most = 400_000, 10.5, 150
    drawn = discrete_gaussian(1.03 * sigma, count, repeatable_bytes(1))
    observed = np.bincount(drawn + most, minlength=2 * most + 1).astype(float)
    assert chisquare(*grouped(observed, count * probabilities(sigma, most))).pvalue < 1e-6


@pytest.mark.parametrize("sigma", LARGE)
def test_large_noise_is_gaussian_down_to_its_last_bits(sigma: float) -> None:
    drawn = discrete_gaussian(sigma, 400_000, repeatable_bytes(2, str(sigma)))
    assert kstest(drawn / sigma, norm.cdf).pvalue > 1e-3
    assert (drawn / sigma).std() == pytest.approx(1, abs=0.005)
    low = np.bincount(drawn & 255, minlength=256)
    assert chisquare(low).pvalue > 1e-3
    assert abs((drawn > 0).mean() - 0.5) < 0.004


def test_the_numbers_are_distributed_as_opendps() -> None:
    """opendp rounds no scale and draws one number at a time (Canonne, Kamath, Steinke 2020)."""
    enable_features("contrib")
    sigma, count, most = 7.3, 20_000, 60
    space = vector_domain(atom_domain(T=int)), l2_distance(T=float)
    theirs = np.array(make_gaussian(*space, scale=sigma)([0] * count))
    ours = discrete_gaussian(sigma, count)
    expected = count * probabilities(sigma, most)
    for drawn in (theirs, ours):
        observed = np.bincount(drawn + most, minlength=2 * most + 1).astype(float)
        assert chisquare(*grouped(observed, expected)).pvalue > 1e-5


@pytest.mark.parametrize("sigma", [*SIGMAS, *LARGE])
def test_no_candidate_needs_a_probability_above_1(sigma: float) -> None:
    """So accepted candidates have exactly the distribution, with any bound that is this large."""
    shift = max(0, math.frexp(sigma)[1] - 1)
    bound = exponent_bound(sigma, shift)
    with mpmath.workdps(60):
        for k in range(63):
            for x in (k << shift, ((k + 1) << shift) - 1):
                accept = 2 ** (k - mpmath.mpf(bound)) * mpmath.exp(
                    -((x / mpmath.mpf(sigma)) ** 2) / 2
                )
                assert accept < 1


@pytest.mark.parametrize("sigma", [0.99, 10.5, 1.99 * 2.0**35])
def test_the_error_of_the_fast_test_is_far_below_what_it_allows_for(sigma: float) -> None:
    shift = max(0, math.frexp(sigma)[1] - 1)
    bound = exponent_bound(sigma, shift)
    blocks = np.arange(20)
    sizes = (blocks << shift) + (1 << shift) - 1
    scaled = sizes / sigma
    fast = np.exp((blocks - bound) * math.log(2) - scaled * scaled / 2)
    with mpmath.workdps(60):
        for k, x, value in zip(blocks.tolist(), sizes.tolist(), fast.tolist(), strict=True):
            exact = 2 ** (k - mpmath.mpf(bound)) * mpmath.exp(-((x / mpmath.mpf(sigma)) ** 2) / 2)
            assert abs(value / exact - 1) < ERROR / 1000


def acceptance(sigma: float, bound: float, k: int, x: int) -> Fraction:
    """Return an acceptance probability with 200 digits."""
    with mpmath.workdps(200):
        value = 2 ** (k - mpmath.mpf(bound)) * mpmath.exp(-((x / mpmath.mpf(sigma)) ** 2) / 2)
        return Fraction(int(mpmath.floor(value * 2**600)), 2**600)


@pytest.mark.parametrize("further_bits", [0, 64, 300])
def test_a_tie_in_double_precision_is_decided_exactly(further_bits: int) -> None:
    """u shares its first bits with the probability, and is one unit of a late bit off."""
    sigma, k, x = 1.99 * 2.0**35, 1, 3 << 33
    bound = exponent_bound(sigma, 35)
    bits = U_BITS + 64 * 6
    exact = int(acceptance(sigma, bound, k, x) * 2**bits)
    for offset, expected in ((-1, True), (1, False)):
        near = exact + (offset << (bits - U_BITS - further_bits - 1 if further_bits < 300 else 60))
        rest = near & ((1 << (bits - U_BITS)) - 1)
        stream = [(rest >> (64 * at)) & (2**64 - 1) for at in range(6)]  # the first comes last

        def further(_: int, stream: list[int] = stream) -> bytes:
            return stream.pop().to_bytes(8, "little")

        decided = accepted_exactly(sigma, bound, k, x, near >> (bits - U_BITS), further)
        assert decided is expected


def test_the_slow_test_decides_as_the_fast_one(monkeypatch: pytest.MonkeyPatch) -> None:
    fast = discrete_gaussian(3.7, 500, repeatable_bytes(3))
    monkeypatch.setattr(module, "ERROR", 2.0)  # then no candidate is decided in double precision
    monkeypatch.setattr(module, "exponent_bound", lambda *of: exponent_bound(*of) - 2.0 + ERROR)
    assert np.array_equal(discrete_gaussian(3.7, 500, repeatable_bytes(3)), fast)


def test_noise_comes_from_the_operating_system_and_no_seed_repeats_it() -> None:
    assert secret_bytes is os.urandom
    drawn = set()
    for _ in range(2):
        torch.manual_seed(0)
        np.random.seed(0)  # noqa: NPY002
        drawn.add(hashlib.sha256(discrete_gaussian(100.0, 50).tobytes()).hexdigest())
    assert len(drawn) == 2
    once, again, other = (
        discrete_gaussian(100.0, 50, repeatable_bytes(*key)) for key in ((0, 1), (0, 1), (0, 2))
    )
    assert np.array_equal(once, again)
    assert not np.array_equal(once, other)


@pytest.mark.parametrize("sigma", [0.0, -1.0, 2.0**57, math.inf, math.nan])
def test_a_sigma_that_the_integers_cannot_hold_is_refused(sigma: float) -> None:
    with pytest.raises(ValueError, match="sigma must be above 0"):
        discrete_gaussian(sigma, 1)


def test_none_are_drawn_if_none_are_asked_for() -> None:
    assert discrete_gaussian(1.0, 0).shape == (0,)
