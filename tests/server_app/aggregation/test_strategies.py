"""Every strategy in ``conf/strategy``: what it changes, and what it must not change."""

import itertools
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from client_app.app import app as client_app
from server_app.aggregation.accumulator import SumSettings, UpdateAccumulator
from server_app.aggregation.aggregator import Aggregator
from server_app.aggregation.guards.none import NoGuard
from server_app.aggregation.strategies.base import StrategySettings, strategy_of
from server_app.aggregation.strategies.dp_adaptive import QuantileClipping
from server_app.aggregation.weights import Weights, from_tensors, to_tensors
from server_app.config.choices import choices
from server_app.config.composition import check_settings, compose_experiment, compose_settings
from task.errors import ConfigError
from task.exact_sum import normalise_weights
from tests.conftest import model_for, needs_of, norm_for, training_methods
from tests.server_app.aggregation.updates import update
from univarfl.engines.local.inprocess_grid import InProcessGrid

STRATEGIES = choices()["strategy"]
METHODS = training_methods()
ADAPTIVE = ["fedavgm", "fedadam", "fedyogi", "fedadagrad"]
PRIVATE = ["dp_fixed", "dp_adaptive", "dp_client_fixed"]
CLIENTS = 8


@pytest.fixture(autouse=True)
def grid() -> InProcessGrid:
    return InProcessGrid(client_app, 1)


class Layer(nn.Module):
    """A trained and a frozen parameter, and batch norm's buffers."""

    def __init__(self, statistics: bool = True) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.zeros(3))
        self.frozen = nn.Parameter(torch.tensor([0.1, 0.2, 0.3]), requires_grad=False)
        if statistics:
            self.bn = nn.BatchNorm1d(3, affine=False)


class Wide(nn.Module):
    """Enough parameters to measure the standard deviation of noise."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.zeros(20_000))


@cache
def settings(strategy: str, *overrides: str) -> StrategySettings:
    words = [f"strategy={strategy}", f"num_clients={CLIENTS}", *needs_of(strategy), *overrides]
    return strategy_of(compose_experiment(words))


def weights(value: float | Sequence[float], statistics: bool = True) -> Weights:
    found: Weights = {
        "w": np.broadcast_to(np.asarray(value, np.float32), (3,)).copy(),
        "frozen": np.array([0.1, 0.2, 0.3], np.float32),
    }
    if statistics:
        number = np.float32(np.mean(value))
        found["bn.running_mean"] = np.full(3, number, np.float32)
        found["bn.running_var"] = np.full(3, abs(number) + 1, np.float32)
        found["bn.num_batches_tracked"] = np.array(int(abs(number)), np.int64)
    return found


def updates(
    values: Sequence[float | Sequence[float]], statistics: bool = True
) -> dict[int, Weights]:
    return {client: weights(value, statistics) for client, value in enumerate(values)}


def aggregated(
    aggregator: Aggregator, server_round: int, before: Weights, given: Mapping[int, Weights]
) -> Weights:
    """Return the new weights; client k has 10 * (k + 1) images and arrives in the given order."""
    rule = aggregator.settings
    examples = {client: 10 * (client + 1) for client in given}
    shares = normalise_weights({client: rule.weight(count) for client, count in examples.items()})
    each = rule.needs_each_update
    sum_settings = SumSettings(NoGuard(most_images=100), set(), [], each=each, mean=not each)
    accumulator = UpdateAccumulator(to_tensors(before), {}, shares, examples, sum_settings)
    for client, sent in given.items():
        accumulator.add(update(client), to_tensors(sent), {})
    grid = InProcessGrid(client_app, 1)
    return from_tensors(aggregator.aggregate(server_round, accumulator, grid))


VALUES = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 100.0]


def after(
    strategy: str, values: Sequence[float] = VALUES, *overrides: str, rounds: int = 1
) -> list[Weights]:
    """Return the global weights after each round in which the clients send `values`."""
    statistics = strategy not in PRIVATE
    aggregator = Aggregator(settings(strategy, *overrides), Layer(statistics), len(values), seed=0)
    found = [weights(1.0, statistics)]
    for server_round in range(1, rounds + 1):
        given = updates(values, statistics)
        found.append(aggregated(aggregator, server_round, found[-1], given))
    return found[1:]


@pytest.mark.parametrize("strategy", STRATEGIES)
class TestEveryStrategy:
    def test_names_order_and_dtypes_survive(self, strategy: str) -> None:
        before = weights(1.0, strategy not in PRIVATE)
        for new in after(strategy, rounds=3):
            assert list(new) == list(before)
            assert [v.dtype for v in new.values()] == [v.dtype for v in before.values()]
            assert [v.shape for v in new.values()] == [v.shape for v in before.values()]
            assert all(np.isfinite(value).all() for value in new.values())

    def test_what_is_frozen_stays_as_it_is(self, strategy: str) -> None:
        """Frozen parameters are not averaged, and get no noise."""
        for new in after(strategy, rounds=2):
            assert np.array_equal(new["frozen"], weights(0.0)["frozen"])

    def test_the_same_updates_give_the_same_bits_in_any_order(self, strategy: str) -> None:
        statistics = strategy not in PRIVATE
        results = set()
        given = updates(VALUES, statistics)
        for order in (list(given), list(given)[::-1]):
            aggregator = Aggregator(settings(strategy), Layer(statistics), CLIENTS, seed=0)
            shuffled = {client: given[client] for client in order}
            new = aggregated(aggregator, 1, weights(1.0, statistics), shuffled)
            results.add(b"".join(value.tobytes() for value in new.values()))
        assert len(results) == 1

    def test_numpys_own_generator_is_left_alone(self, strategy: str) -> None:
        np.random.seed(5)  # noqa: NPY002
        expected = np.random.random()  # noqa: NPY002
        np.random.seed(5)  # noqa: NPY002
        after(strategy)
        assert np.random.random() == expected  # noqa: NPY002


@pytest.mark.parametrize("strategy", [each for each in STRATEGIES if each not in PRIVATE])
class TestStatistics:
    def test_variances_stay_at_0_or_above_and_counters_are_the_largest(self, strategy: str) -> None:
        given = updates(VALUES)
        for client, sent in given.items():
            sent["bn.running_var"] = np.full(3, 10 * client - 40, np.float32)
        aggregator = Aggregator(settings(strategy), Layer(), CLIENTS, seed=0)
        new = aggregated(aggregator, 1, weights(1.0), given)
        assert new["bn.running_var"].min() >= 0
        assert new["bn.num_batches_tracked"] == 100


class TestAdaptive:
    @pytest.mark.parametrize("strategy", ADAPTIVE)
    def test_statistics_are_averaged_by_examples_and_never_optimised(self, strategy: str) -> None:
        mean = np.average(VALUES, weights=[10 * (c + 1) for c in range(CLIENTS)])
        for new in after(strategy, rounds=3):
            assert new["bn.running_mean"] == pytest.approx(np.full(3, mean), rel=1e-6)

    def test_fedavgm_by_hand(self) -> None:
        """Uniform mean 2 from 1: v = 1, w = 1 - (1 - 2) = 2; then v = 0.5 * (-1) + (2 - 2), 2.5."""
        words = ["strategy.weighting=uniform", "strategy.server_momentum=0.5"]
        first, second = after("fedavgm", [1.0, 3.0], *words, rounds=2)
        assert first["w"] == pytest.approx(np.full(3, 2.0))
        assert second["w"] == pytest.approx(np.full(3, 2.5))

    def test_fedavgm_starts_each_round_from_the_weights_that_were_sent(self) -> None:
        """A method may move the weights after the aggregation, as FedDyn does."""
        aggregator = Aggregator(
            settings("fedavgm", "strategy.server_momentum=0"), Layer(), 2, seed=0
        )
        aggregated(aggregator, 1, weights(1.0), updates([2.0, 2.0]))
        new = aggregated(aggregator, 2, weights(7.0), updates([9.0, 9.0]))
        assert new["w"] == pytest.approx(np.full(3, 9.0))

    def test_fedadagrad_by_hand(self) -> None:
        """Delta 1, so v = 1 and the step is lr / (1 + tau)."""
        words = ["strategy.server_lr=0.1", "strategy.tau=0.25", "strategy.weighting=uniform"]
        (new,) = after("fedadagrad", [1.0, 3.0], *words)
        assert new["w"] == pytest.approx(np.full(3, 1 + 0.1 / 1.25))


class TestRobust:
    def test_the_median_by_hand(self) -> None:
        (new,) = after("fedmedian")
        assert new["w"] == pytest.approx(np.full(3, 3.5))
        assert new["bn.running_mean"] == pytest.approx(np.full(3, 3.5))
        assert new["bn.running_var"] == pytest.approx(np.full(3, 4.5))

    def test_the_trimmed_mean_by_hand(self) -> None:
        """0.2 of 8 is one client at each end: the mean of 1 to 6."""
        (new,) = after("fedtrimmedavg")
        assert new["w"] == pytest.approx(np.full(3, 3.5))
        assert new["bn.running_mean"] == pytest.approx(np.full(3, 3.5))

    @pytest.mark.parametrize("strategy", ["krum", "multikrum", "bulyan"])
    def test_an_outlier_moves_neither_weights_nor_statistics(self, strategy: str) -> None:
        (new,) = after(strategy)
        assert new["w"].max() <= 6
        assert new["bn.running_mean"].max() <= 6

    def test_krum_takes_one_clients_model_as_it_is(self) -> None:
        values = [0.1, 0.2, 0.3, 0.35, 0.4, 0.6, 0.9, 100.0]
        (new,) = after("krum", values)
        assert any(
            all(
                new[name] == pytest.approx(sent[name], rel=1e-6) for name in ("w", "bn.running_var")
            )
            for sent in updates(values).values()
        )

    def test_krum_tells_close_models_far_from_0_apart(self) -> None:
        """Distances of 1e-3 between numbers near 1e4 are lost in float32, not those of updates."""
        values = [1e4 + step for step in (0.0, 1e-3, 2e-3, 3e-3, 4e-3, 0.5, 0.7, 0.9)]
        aggregator = Aggregator(settings("krum"), Layer(), CLIENTS, seed=0)
        new = aggregated(aggregator, 1, weights(1e4), updates(values))
        assert new["w"][0] in np.array(values[:5], np.float32)

    @pytest.mark.parametrize("strategy", ["krum", "multikrum", "bulyan", "fedmedian"])
    def test_numbers_of_any_size_are_accepted(self, strategy: str) -> None:
        (new,) = after(strategy, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 1e18])
        assert new["w"].max() <= 6

    @pytest.mark.parametrize(("strategy", "least"), [("krum", 5), ("multikrum", 5), ("bulyan", 7)])
    def test_too_few_participants_are_refused_before_training(
        self, strategy: str, least: int
    ) -> None:
        assert settings(strategy, f"num_clients={least}").min_updates() == least
        for words in ([f"num_clients={least - 1}"], ["num_clients=20", "rho=0.2"]):
            with pytest.raises(ConfigError, match=rf"strategy.num_malicious=1: needs .* {least}"):
                settings(strategy, *words)

    @pytest.mark.parametrize("words", [(), ("strategy.selected=7",)])
    def test_multikrum_trusts_no_more_when_clients_fail(self, words: tuple[str, ...]) -> None:
        """8 are sampled and 6 answer, with the attacker among them: at most 5 may be averaged."""
        aggregator = Aggregator(settings("multikrum", *words), Layer(), CLIENTS, seed=0)
        given = updates([0.0, 1.0, 2.0, 3.0, 4.0, 100.0])
        new = aggregated(aggregator, 1, weights(1.0), given)
        assert new["w"].max() <= 4

    def test_a_trimmed_mean_that_trims_nobody_is_refused(self) -> None:
        with pytest.raises(ConfigError, match=r"trimmed=0.2: trims no client of 4 .* 0.25"):
            settings("fedtrimmedavg", "num_clients=4")
        assert settings("fedtrimmedavg", "num_clients=4", "strategy.trimmed=0.25")
        assert settings("fedtrimmedavg", "num_clients=4", "strategy.trimmed=0")
        assert settings("fedtrimmedavg").min_updates() == 5

    def test_multikrum_cannot_select_those_it_distrusts(self) -> None:
        with pytest.raises(ConfigError, match=r"selected=8: must be at most .* = 7"):
            settings("multikrum", "strategy.selected=8")


class TestPrivate:
    @pytest.mark.parametrize("strategy", ["dp_fixed", "dp_adaptive"])
    def test_without_noise_a_long_update_is_clipped(self, strategy: str) -> None:
        """From 1, one client sends 1 and one 101 in each of 3: |update| = 173 becomes 1."""
        norm = "clipping_norm" if strategy == "dp_fixed" else "initial_clipping_norm"
        words = ["strategy.noise_multiplier=0", f"strategy.{norm}=1"]
        (new,) = after(strategy, [1.0, 101.0], *words)
        assert new["w"] == pytest.approx(np.full(3, 1 + 0.5 * 3**-0.5), rel=1e-6)

    @pytest.mark.parametrize("strategy", PRIVATE)
    def test_noise_is_keyed_by_seed_and_round(self, strategy: str) -> None:
        """With the same updates of the same weights."""

        def noisy(seed: int, server_round: int) -> Any:
            aggregator = Aggregator(settings(strategy), Layer(False), CLIENTS, seed=seed)
            given = updates(VALUES, False)
            return aggregated(aggregator, server_round, weights(1.0, False), given)["w"]

        first = noisy(0, 1)
        assert np.array_equal(noisy(0, 1), first)
        assert not np.array_equal(noisy(1, 1), first)
        assert not np.array_equal(noisy(0, 2), first)

    @pytest.mark.parametrize("strategy", PRIVATE)
    def test_without_a_seed_noise_is_new_each_time(self, strategy: str) -> None:
        found = []
        for _ in range(2):
            aggregator = Aggregator(settings(strategy), Layer(False), CLIENTS, seed=None)
            found.append(aggregated(aggregator, 1, weights(1.0, False), updates(VALUES, False)))
        assert not np.array_equal(found[0]["w"], found[1]["w"])

    def test_noise_has_its_deviation_and_grows_when_a_client_fails(self) -> None:
        """noise_multiplier * norm / accepted: 0.5 * 3 / 8, and 0.5 * 3 / 2 with two left."""

        words = ["strategy.noise_multiplier=0.5", "strategy.clipping_norm=3"]
        zeros: Weights = {"w": np.zeros(20_000, np.float32)}
        for accepted, deviation in ((8, 0.1875), (2, 0.75)):
            aggregator = Aggregator(settings("dp_fixed", *words), Wide(), 8, seed=0)
            new = aggregated(aggregator, 1, zeros, dict.fromkeys(range(accepted), zeros))
            assert new["w"].std() == pytest.approx(deviation, rel=0.05)

    @pytest.mark.parametrize("strategy", PRIVATE)
    def test_a_client_that_does_not_move_ends_no_run(self, strategy: str) -> None:
        (new,) = after(strategy, [1.0, 1.0, 1.0], "strategy.noise_multiplier=0")
        assert new["w"] == pytest.approx(np.full(3, 1.0))

    def test_clients_have_equal_weight(self) -> None:
        words = ["strategy.noise_multiplier=0", "strategy.clipping_norm=1000"]
        (new,) = after("dp_fixed", [1.0, 3.0], *words)
        assert new["w"] == pytest.approx(np.full(3, 2.0))

    @pytest.mark.parametrize(("length", "first"), [(10.0, 1.0), (0.1, 1.0)])
    def test_the_clipping_norm_comes_to_the_quantile(self, length: float, first: float) -> None:
        """All updates have the same norm: the clipping norm converges to it from either side."""
        words = (
            "strategy.noise_multiplier=0", f"strategy.initial_clipping_norm={first}",
            "strategy.clipping_lr=0.5",
        )  # fmt: skip
        aggregator = Aggregator(settings("dp_adaptive", *words), Layer(False), 4, seed=0)
        assert isinstance(aggregator._strategy, QuantileClipping)
        before = weights(0.0, False)
        for server_round in range(1, 60):
            given = updates([length * 3**-0.5] * 4, False)
            aggregated(aggregator, server_round, before, given)
        assert aggregator._strategy.clipping_norm == pytest.approx(length, rel=0.3)

    def test_adaptive_noise_follows_the_norm_that_clipped(self) -> None:
        """z = (0.1^-2 - (2 * 0.4)^-2)^-0.5 = 0.1008, norm 1, 8 clients; then a smaller norm."""

        words = ("strategy.noise_multiplier=0.1", "strategy.clipping_lr=3")
        aggregator = Aggregator(settings("dp_adaptive", *words), Wide(), 8, seed=0)
        zeros: Weights = {"w": np.zeros(20_000, np.float32)}
        new = aggregated(aggregator, 1, zeros, dict.fromkeys(range(8), zeros))
        assert new["w"].std() == pytest.approx(0.1008 / 8, rel=0.05)
        assert isinstance(aggregator._strategy, QuantileClipping)
        assert aggregator._strategy.clipping_norm < 0.5

    def test_adaptive_noise_must_leave_something_for_the_count(self) -> None:
        with pytest.raises(
            ConfigError, match=r"strategy.noise_multiplier=1.0: must be below twice"
        ):
            settings("dp_adaptive", "strategy.noise_multiplier=1")


SERVER_UPDATES = {"feddyn", "fedexp", "fednova", "scaffold"}
SCALE_THE_STEP = {"fedexp", "fednova"}
KEEP_STEPS = {"fedadagrad", "fedadam", "fedavgm", "fedyogi"}
BUFFERED = {"fedbuff"}
NOT_MEANS = {"fedmedian", "fedtrimmedavg", "krum", "multikrum", "bulyan", *PRIVATE}


@cache
def composed(*words: str) -> dict[str, Any]:
    """Compose once, because each composition takes 0.1 s and there are many pairs."""
    return compose_settings(words)


@pytest.mark.parametrize("method", METHODS)
def test_pairs_that_make_no_sense_are_refused_and_no_others(method: str) -> None:
    for strategy in STRATEGIES:
        found = dict(composed(f"method={method}", *model_for(method)))
        needed = composed(f"strategy={strategy}", *needs_of(strategy))
        found |= {group: needed[group] for group in ("strategy", "clock")}
        if norm_for(strategy):
            found["model"] = {**found["model"], "norm": "group"}
        if method in SERVER_UPDATES and strategy in NOT_MEANS:
            why = f"strategy={strategy}: method={method} needs the exact mean"
            with pytest.raises(ConfigError, match=why):
                check_settings(found, [])
        elif method in SERVER_UPDATES | SCALE_THE_STEP and strategy in BUFFERED:
            why = f"strategy={strategy}: mixes updates of several rounds, but method={method}"
            with pytest.raises(ConfigError, match=why):
                check_settings(found, [])
        elif method == "fedbn" and norm_for(strategy):
            with pytest.raises(ConfigError, match="method=fedbn: keeps batch norm"):
                check_settings(found, [])
        elif method in SCALE_THE_STEP and strategy in KEEP_STEPS:
            why = f"strategy={strategy}: method={method} changes the length of the server's step"
            with pytest.raises(ConfigError, match=why):
                check_settings(found, [])
        else:
            assert check_settings(found, [])


@pytest.mark.parametrize(
    ("strategy", "method"), list(itertools.product(PRIVATE, ["fedavg", "moon"]))
)
def test_privacy_refuses_batch_norm(strategy: str, method: str) -> None:
    with pytest.raises(ConfigError, match=rf"strategy={strategy}: .* add model.norm=group"):
        compose_experiment([f"strategy={strategy}", f"method={method}"])


@pytest.mark.parametrize("method", ["stochdepth", "gradaug", "fedalign", "fedalign+moon"])
def test_methods_that_need_residual_blocks_refuse_the_cnn(method: str) -> None:
    with pytest.raises(ConfigError, match=r"needs residual blocks, but model=cnn has none"):
        compose_experiment([f"method={method}"])


def test_a_refused_pair_in_a_combination_names_the_member() -> None:
    with pytest.raises(ConfigError, match="method=scaffold needs the exact mean"):
        compose_experiment(["method=univarfl+scaffold", "strategy=krum"])


def test_tensors_are_not_shared_with_what_was_sent() -> None:
    """A strategy that works in place must not change the global weights."""
    before = weights(1.0)
    copies = {name: torch.from_numpy(value).clone() for name, value in before.items()}
    for strategy in STRATEGIES:
        if strategy not in PRIVATE:
            aggregator = Aggregator(settings(strategy), Layer(), CLIENTS, seed=0)
            aggregated(aggregator, 1, before, updates(VALUES))
    expected: dict[str, Tensor] = copies
    assert all(np.array_equal(before[name], value.numpy()) for name, value in expected.items())
