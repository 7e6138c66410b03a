"""Properties of every method in ``conf/method``."""

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from client_app.client_state import ClientState
from server_app.config.composition import compose_experiment
from task.config import LocalConfig
from task.methods.base import Contribution, ServerUpdate
from task.optim.parameters import trained_parameters
from task.registry import component_class
from task.rules import read_local_config
from task.training.loop import LocalResult
from task.training.worker import Worker, build_model_for
from tests.conftest import CNN, LENET, model_for, training_methods, with_slow

COMBINED = [
    "univarfl+fedprox",
    "mixup+moon+scaffold",
    "stochdepth+feddyn",
    "univarfl+feddecorr",
    "fedlesam+scaffold+fedlc",
    "fednova+moon+fedlesam",
    "mixup+fedetf",
    "univarfl+fedbn",
    "fedbn+fedrep+moon",
    "univarfl+moon+fedrcl",
    "stochdepth+gradaug+fedalign+fedrcl",
]
METHODS = [*training_methods(), *COMBINED]
# They train a deep network several times a step. Stochdepth and fedalign are of their kind.
SLOW = ("gradaug", "stochdepth+feddyn", "stochdepth+gradaug+fedalign+fedrcl")
CLIENT = 1  # 36 images, the fewest
ANOTHER_CLIENT = 6  # 58 images


@pytest.fixture(scope="module", autouse=True)
def _all_digits(cache_of_all_digits: Path) -> Iterator[None]:
    """Use all digits in this module, because a few leave a client with too few images."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UNIVARFL_CACHE", str(cache_of_all_digits))
        yield


@cache
def config(method: str, *overrides: str) -> LocalConfig:
    words = [
        f"method={method}", "local_epochs=1", *LENET, *model_for(method), "batch_size=16",
        *overrides,
    ]  # fmt: skip
    return compose_experiment(words).local()


def same(a: Mapping[str, Tensor], b: Mapping[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def numbers(model: nn.Module) -> int:
    """How many numbers a model has, in parameters and in all buffers."""
    return sum(value.numel() for value in (*model.parameters(), *model.buffers()))


def server_update(one: Worker) -> ServerUpdate | None:
    initial, trained = one.initial_weights(), trained_parameters(one.model)
    return one.method.server({name: initial[name] for name in trained if name in initial})


def updated(half: ServerUpdate | None, before: Mapping[str, Tensor], result: LocalResult) -> None:
    if half is not None:
        half.update(before, result.weights, Contribution(0.5, result.weights, result.extra, 1.0))


@dataclass(frozen=True)
class FirstRound:
    """A worker, the global weights, a copy made before round 1, and the result of round 1."""

    worker: Worker
    weights: dict[str, Tensor]
    before: dict[str, Tensor]
    result: LocalResult


@pytest.fixture(scope="class")
def first_round(method: str) -> FirstRound:
    """Return round 1 of a method at one client, which the tests of the method share."""
    worker = Worker(config(method))
    weights = dict(worker.initial_weights())
    before = {name: value.clone() for name, value in weights.items()}
    return FirstRound(worker, weights, before, worker.train(weights, 1, CLIENT))


@pytest.mark.parametrize("method", with_slow(METHODS, SLOW), scope="class")
class TestEveryMethod:
    def test_trains_and_leaves_the_global_weights_alone(self, first_round: FirstRound) -> None:
        before, result = first_round.before, first_round.result
        assert same(first_round.weights, before)
        assert not same(result.weights, before)
        assert all(value.dtype == before[name].dtype for name, value in result.weights.items())

    def test_says_how_many_numbers_it_adds_to_the_model(self, first_round: FirstRound) -> None:
        one = first_round.worker
        plain = build_model_for(one.config, one.data.dataset)
        most = numbers(plain) + one.method.added_numbers(plain)
        assert numbers(one.model) <= most

    def test_counts_images_and_records_the_terms_it_declares(self, first_round: FirstRound) -> None:
        one, result = first_round.worker, first_round.result
        assert result.examples == len(one.data.clients[CLIENT].train) == 36
        declared = [term for member in one.method.members() for term in member.terms]
        assert list(result.losses) == ["ce", *declared]
        keeps = any(member.keeps_state or member.personalises for member in one.method.members())
        assert keeps == bool(result.state)

    def test_a_method_that_overrides_personal_names_a_part(self, first_round: FirstRound) -> None:
        own = first_round.worker.personal
        assert bool(own) == first_round.worker.config.personalised
        assert not own.shared.keys() & set(own.names)

    def test_rounds_draw_their_own_batches(self, first_round: FirstRound) -> None:
        second = first_round.worker.train(first_round.weights, 2, CLIENT)
        assert not same(second.weights, first_round.result.weights)

    def test_what_a_client_computes_does_not_depend_on_who_came_before(
        self, first_round: FirstRound
    ) -> None:
        one, weights = first_round.worker, first_round.weights
        one.train(weights, 3, ANOTHER_CLIENT)
        one.validate_personal(weights, ANOTHER_CLIENT, {})
        assert same(one.train(weights, 1, CLIENT).weights, first_round.result.weights)

    def test_a_new_process_scores_and_trains_as_one_that_has_trained(
        self, method: str, first_round: FirstRound
    ) -> None:
        """Training leaves nothing behind in the model that is scored."""
        fresh, weights = Worker(config(method)), first_round.weights
        scores = (
            one.validate_personal(weights, ANOTHER_CLIENT, {})
            for one in (fresh, first_round.worker)
        )
        assert next(scores) == next(scores)
        assert same(fresh.train(weights, 1, CLIENT).weights, first_round.result.weights)

    def test_a_new_process_goes_on_from_the_memory_to_the_same_bits(
        self,
        method: str,
        first_round: FirstRound,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """Round 1 in one worker; round 2 in the same worker, and in a new one with its state."""
        monkeypatch.setenv("UNIVARFL_MEMORY", str(tmp_path))
        one, another = first_round.worker, Worker(config(method))
        weights, first = first_round.weights, first_round.result
        ClientState("run", 3 * one.model_bytes).keep(CLIENT, 1, 0, first.state)
        loaded = ClientState("run", 3 * one.model_bytes).load(CLIENT, 1)
        half = server_update(one)
        updated(half, weights, first)
        broadcast = half.broadcast() if half else {}
        stays = one.train(first.weights, 2, CLIENT, first.state, broadcast)
        moved = another.train(first.weights, 2, CLIENT, loaded, broadcast)
        assert same(stays.weights, moved.weights)
        assert same(stays.state, moved.state)
        assert same(stays.extra, moved.extra)
        assert stays.losses == moved.losses

    def test_a_server_half_goes_on_from_its_state_to_the_same_bits(
        self, first_round: FirstRound
    ) -> None:
        one, weights, first = first_round.worker, first_round.weights, first_round.result
        half, restored = server_update(one), server_update(one)
        assert (half is not None) == any(m.server_update for m in one.method.members())
        if half is None or restored is None:
            return
        assert first.extra.keys() == half.broadcast().keys()
        updated(half, weights, first)
        restored.state = {name: value.clone() for name, value in half.state.items()}
        given = Contribution(0.5, first.weights, first.extra, 1.0)
        new = half.update(weights, first.weights, given)
        assert same(new, restored.update(weights, first.weights, given))
        assert same(half.state, restored.state)
        assert new.keys() == weights.keys()

    def test_its_settings_are_read_back_from_a_record(self, method: str) -> None:
        again = read_local_config(config(method).model_dump_json())
        assert dataclasses.asdict(again.local_method()) == dataclasses.asdict(
            config(method).local_method()
        )


OTHER_COEFFICIENTS = {
    "fedlesam": ["method.radius=0"],
    "fedrs": ["method.missing_scale=1"],
    "fedsol": ["method.radius=0"],
    "mixup": ["method.mixing_concentration=0"],
    "stochdepth": ["method.keep_rate=1"],
}


def off(method: str) -> list[str]:
    """Return overrides that set every setting named ``..weight`` of a method to 0."""
    kind = component_class("method", method)
    weights = [field.name for field in dataclasses.fields(kind) if field.name.endswith("weight")]
    return OTHER_COEFFICIENTS.get(method, [f"method.{name}=0" for name in weights])


@cache
def two_rounds(method: str, *overrides: str) -> dict[str, Tensor]:
    """Return one client's model after two rounds, with state and server update in between."""
    one = Worker(config(method, *overrides))
    weights = one.initial_weights()
    first = one.train(weights, 1, CLIENT)
    half = server_update(one)
    updated(half, weights, first)
    broadcast = half.broadcast() if half else {}
    return one.train(first.weights, 2, CLIENT, first.state, broadcast).weights


def test_these_have_no_coefficient() -> None:
    assert {
        "fedavg", "fedbn", "fedetf", "fedexp", "fednova", "fedper", "fedrep", "freeze", "scaffold",
    } == {m for m in training_methods() if not off(m)}  # fmt: skip


@pytest.mark.parametrize(
    "method", with_slow([method for method in training_methods() if off(method)], SLOW)
)
def test_at_0_a_method_gives_the_fedavg_update_bit_for_bit_and_by_default_another(
    method: str,
) -> None:
    # The one client's model is the global one. MOON tells them apart by batch norm's statistics.
    words = CNN if method == "moon" else model_for(method)
    plain = two_rounds("fedavg", *words)
    assert same(two_rounds(method, *words, *off(method)), plain)
    assert not same(two_rounds(method, *words), plain)


def test_fedexp_changes_the_server_alone() -> None:
    assert same(two_rounds("fedexp"), two_rounds("fedavg"))


@pytest.mark.parametrize("method", ["fedetf", "fednova", "freeze", "scaffold"])
def test_methods_without_a_coefficient_differ_from_fedavg(method: str) -> None:
    assert not same(two_rounds(method), two_rounds("fedavg"))


@pytest.mark.parametrize("term", ["energy", "variance"])
def test_univarfl_with_one_term_differs_from_fedavg(term: str) -> None:
    one_on = [word for word in off("univarfl") if term in word]
    assert not same(two_rounds("univarfl", *one_on), two_rounds("fedavg"))


def test_a_combination_at_0_is_its_other_member() -> None:
    alone = "method.proximal_weight=0"
    assert same(two_rounds("univarfl+fedprox", alone), two_rounds("univarfl"))
    assert not same(two_rounds("univarfl+fedprox"), two_rounds("univarfl"))


def test_fedsols_first_step_is_fedavgs() -> None:
    """There the local model is the global one, so the gradient of P is nothing but rounding."""
    one_step = ("batch_size=1000", "local_epochs=1")
    fixed = ("method.adaptive=false", "method.radius=1.0")
    sol, plain = (Worker(config(*words, *one_step)) for words in (("fedsol", *fixed), ("fedavg",)))
    first, second = (one.train(one.initial_weights(), 1, CLIENT).weights for one in (sol, plain))
    assert same(first, second)


@pytest.mark.parametrize("method", ["fedlesam", "fedsol"])
def test_perturbed_weights_are_used_in_bfloat16_too(method: str) -> None:
    """Autocast keeps copies of the weights, which must not be those of before the perturbation."""
    narrow = "runtime.precision=bfloat16"
    plain = two_rounds(method, narrow, *off(method))
    assert same(plain, two_rounds("fedavg", narrow))
    assert not same(two_rounds(method, narrow), plain)
