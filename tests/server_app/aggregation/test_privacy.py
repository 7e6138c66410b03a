"""The reported epsilon, compared with other accountants; and clipping on the clients."""

import math
from pathlib import Path

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent
from dp_accounting.pld import PLDAccountant
from flwr.serverapp import RdpAccountant
from flwr.supercore.privacy_accounting import (
    GaussianPrivacyEvent,
    NeighboringRelation,
    PrivacyConfig,
    SamplingMethod,
)
from safetensors.numpy import load_file
from scipy.optimize import brentq
from scipy.stats import norm

from server_app.aggregation.strategies.base import strategy_of
from server_app.aggregation.strategies.dp_fixed import gaussian_epsilon
from server_app.config.composition import compose_experiment
from server_app.runs.records.run_record import read_entries
from task.errors import ConfigError
from task.privacy.noise import add_gaussian_noise
from task.training.worker import Worker
from tests.conftest import SMALL, Train, rows, sha256
from univarfl.report.write import report

DELTA = 1e-5
CASES = [(0.5, 12), (1.0, 12), (2.0, 100), (8.0, 30)]
PRIVATE = ("strategy=dp_fixed", "model.norm=group", "rounds=3")


def epsilon_by_theorem_8(multiplier: float, rounds: int) -> float:
    """Return epsilon at `DELTA` for sensitivity 1: Balle and Wang (ICML 2018), Theorem 8."""
    deviation = multiplier / math.sqrt(rounds)

    def beyond(epsilon: float) -> float:
        first = norm.cdf(0.5 / deviation - epsilon * deviation)
        second = norm.logcdf(-0.5 / deviation - epsilon * deviation)
        return float(first - math.exp(epsilon + second) - DELTA)

    return float(brentq(beyond, 0, 500))


# The first takes 240 MB and a third of this file's time.
@pytest.mark.parametrize(
    ("multiplier", "rounds"), [pytest.param(*CASES[0], marks=pytest.mark.slow), *CASES[1:]]
)
def test_epsilon_is_that_of_other_accountants(multiplier: float, rounds: int) -> None:
    ours = gaussian_epsilon(multiplier, rounds, DELTA)
    numeric = PLDAccountant()
    numeric.compose(GaussianDpEvent(multiplier), rounds)
    assert ours == pytest.approx(numeric.get_epsilon(DELTA), rel=0.01)
    assert ours == pytest.approx(epsilon_by_theorem_8(multiplier, rounds), rel=0.01)


@pytest.mark.parametrize(("multiplier", "rounds"), CASES)
def test_flowers_own_bound_is_above_it(multiplier: float, rounds: int) -> None:
    config = PrivacyConfig(
        target_delta=DELTA,
        population_size=10,
        neighboring_relation=NeighboringRelation.ADD_OR_REMOVE_ONE,
        sampling_method=SamplingMethod.NO_AMPLIFICATION,
    )
    bound = RdpAccountant(config)
    event = GaussianPrivacyEvent(multiplier, sample_size=10, population_size=10)
    bound.compose(event, rounds)
    ours = gaussian_epsilon(multiplier, rounds, DELTA)
    assert ours < bound.get_privacy_spent().epsilon < 1.15 * ours


def test_the_record_says_what_was_spent_after_each_round(train: Train) -> None:
    directory = train(*PRIVATE, "strategy.noise_multiplier=2", "strategy.delta=1e-4")
    spent = read_entries(directory)["privacy"]
    assert (spent["rounds"], spent["delta"]) == (3, 1e-4)
    table = [row for row in rows(directory, "rounds.csv") if row["metric"] == "epsilon"]
    expected = [gaussian_epsilon(2.0, at, 1e-4) for at in (1, 2, 3)]
    assert [float(row["value"]) for row in table] == pytest.approx(expected)
    assert spent["epsilon"] == pytest.approx(expected[-1])
    assert any("without noise" in outside for outside in spent["outside"])


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["strategy=dp_adaptive"], "no accountant covers this strategy"),
        (["strategy=dp_client_fixed"], "cannot see whether clients clip"),
        (["strategy=dp_fixed", "strategy.noise_multiplier=0"], "epsilon is infinite"),
    ],
)
def test_what_cannot_be_accounted_says_so(words: list[str], why: str) -> None:
    spent = strategy_of(compose_experiment([*words, "model.norm=group"])).privacy_spent(5)
    assert spent["epsilon"] == "not accounted"
    assert why in spent["why"]


@pytest.mark.parametrize("strategy", ["dp_fixed", "dp_client_fixed"])
def test_a_seed_does_not_remove_the_noise(train: Train, strategy: str) -> None:
    """Two runs of one seed differ by sqrt(2) times the deviation of the noise, 0.1 / 4."""
    words = ("rounds=1", "model.norm=group", f"strategy={strategy}")
    first, second = (load_file(train(*words) / "model.safetensors") for _ in range(2))
    between = np.concatenate([(first[name] - second[name]).ravel() for name in first])
    assert between.std() == pytest.approx(math.sqrt(2) * 0.1 / 4, rel=0.05)


def test_without_noise_the_seed_gives_the_same_bits(train: Train) -> None:
    words = ("rounds=1", "model.norm=group", "strategy=dp_fixed", "strategy.noise_multiplier=0")
    assert sha256(train(*words)) == sha256(train(*words))


def test_a_study_repeats_its_noise_and_says_so(train: Train, tmp_path: Path) -> None:
    words = ("rounds=1", "model.norm=group", "strategy=dp_fixed", "privacy.reproducible=true")
    directory = train(*words)
    assert sha256(train(*words)) == sha256(directory)
    assert sha256(train(*words, "seed=1")) != sha256(directory)
    spent = read_entries(directory)["privacy"]
    assert "protects nobody" in spent["noise"]
    assert "with it the noise can be removed" in spent["outside"][0]
    report(directory, tmp_path / "page")
    page = (tmp_path / "page" / "index.html").read_text()
    assert "follows from the seed (privacy.reproducible=true)" in page
    assert "so these runs protect nobody" in page


def test_the_record_and_the_page_say_that_noise_is_secret(train: Train, tmp_path: Path) -> None:
    directory = train("rounds=1", "model.norm=group", "strategy=dp_fixed")
    spent = read_entries(directory)["privacy"]
    assert spent["noise"].startswith("secret: drawn from the operating system")
    assert not any("the seed" in outside for outside in spent["outside"])
    report(directory, tmp_path / "page")
    page = (tmp_path / "page" / "index.html").read_text()
    assert "secret: drawn from the operating system" in page
    assert "protect nobody" not in page


def test_noise_that_is_not_there_cannot_be_reproduced() -> None:
    with pytest.raises(ConfigError, match="there is no noise to reproduce"):
        compose_experiment(["privacy.reproducible=true"])


def test_noise_is_added_on_a_grid_far_finer_than_its_deviation() -> None:
    values = np.random.default_rng(0).normal(size=(50, 400))
    noisy = add_gaussian_noise(values, 0.3)
    units = noisy * 2.0**37  # 0.3 is between 2^-2 and 2^-1
    assert noisy.shape == values.shape
    assert np.array_equal(units, np.rint(units))
    assert (noisy - values).std() == pytest.approx(0.3, rel=0.03)
    assert len(np.unique(units.astype(np.int64) & 255)) == 256


def test_without_privacy_nothing_is_claimed(train: Train) -> None:
    assert "privacy" not in read_entries(train("rounds=1"))


@pytest.mark.parametrize("strategy", ["dp_fixed", "dp_adaptive", "dp_client_fixed"])
def test_batch_norm_is_refused(strategy: str) -> None:
    with pytest.raises(ConfigError, match=r"add model\.norm=group"):
        compose_experiment([f"strategy={strategy}"])


def test_clients_clip_their_updates(train: Train) -> None:
    """With one client and no noise, the update's norm is the clipping norm; more without it."""
    words = ("num_clients=1", "rounds=1", "model.norm=group", "partition=iid")
    limit = ("strategy=dp_client_fixed", "strategy.noise_multiplier=0", "strategy.clipping_norm=")
    start = Worker(compose_experiment([*SMALL, *words]).local()).initial_weights()

    def moved(*strategy: str) -> float:
        after = load_file(train(*words, *strategy) / "model.safetensors")
        return math.sqrt(sum(np.square(after[k] - v.numpy()).sum() for k, v in start.items()))

    free = moved()
    assert free > 0.2
    assert moved(*limit[:2], f"{limit[2]}0.1") == pytest.approx(0.1, rel=1e-3)
    assert moved(*limit[:2], f"{limit[2]}100") == pytest.approx(free, rel=1e-5)
