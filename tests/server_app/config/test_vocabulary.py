"""Unknown words: what is suggested instead, and that it is accepted when it is typed."""

import re
import shlex

import pytest

from server_app.aggregation.strategies.base import strategy_of
from server_app.config.choices import choices
from server_app.config.composition import compose_experiment, compose_settings
from server_app.config.conf_settings import every_key
from server_app.config.vocabulary import symbols, unknown_key, vocabulary
from task.errors import ConfigError

FOR_NOISE = (
    "write privacy=example method=fedavg model.norm=group privacy.noise_multiplier={0} for noise "
    "at the clients, or strategy=dp_fixed model.norm=group strategy.noise_multiplier={0} at the "
    "server"
)
REPORTED = "epsilon is reported and cannot be set; the noise multiplier decides it: "
METHODS_WITH_MU = "method=fedalign|fedprox|fedrcl|feduv|gradaug|moon|univarfl"


def answer(words: str) -> str:
    """Return what the last of some words is answered, without the word itself."""
    typed = shlex.split(words)
    with pytest.raises(ConfigError) as caught:
        compose_experiment(typed)
    return str(caught.value).removeprefix(f"{typed[-1]}: ").removeprefix("unknown key; ")


@pytest.mark.parametrize(
    ("words", "cure"),
    [
        ("method=feduv lambda=0.1", "method.deviation_weight=0.1"),
        ("method=feduv method.lambda=0.1", "method.deviation_weight=0.1"),
        ("method=feduv mu=1", "method.uniformity_weight=1"),
        ("method=fedalign model=resnet56 data.image_size=8 mu=1", "method.alignment_weight=1"),
        ("method=gradaug model=resnet56 data.image_size=8 mu=1", "method.distillation_weight=1"),
        ("method=feddyn method.alpha=0.1", "method.dynamic_weight=0.1"),
        ("method=fedlesam method.rho=0.5", "method.radius=0.5"),
        ("method=fedsol method.rho=1", "method.radius=1"),
        ("method=fedntd method.beta=1", "method.distillation_weight=1"),
        ("method=feddecorr method.beta=1", "method.decorrelation_weight=1"),
        ("method=fedvls method.lambda=1", "method.distillation_weight=1"),
        ("method=moon method.tau=1", "method.temperature=1"),
        ("method=moon tau=1", "method.temperature=1"),
        ("method.epsilon=1", "method.energy_eps=1"),
        ("strategy=fedadam strategy.eta=0.1", "strategy.server_lr=0.1"),
        ("strategy=fedadam tau=0.1", "strategy.tau=0.1"),
        ("Mu=1", "method.energy_weight=1"),
        ("beta=1", "alpha=1"),
        ("partition=iid noniid=true", "partition=dirichlet"),
        ("noniid=pathological", "partition=pathological"),
        ("noniid=false", "partition=iid"),
        ("iid=true", "partition=iid"),
        ("gpu=false", "device=cpu"),
        ("cuda=0", "device=cpu"),
        ("cpu=false", "device=auto"),
        ("ray=false", "engine=inprocess"),
        ("simulation=false", "engine=inprocess"),
        ("runtime=compiled compile=false", "runtime=eager"),
        ("amp=false", "runtime.precision=float32"),
        ("dataset=Digits", "data=digits"),
        ("network='ResNet-18'", "model=resnet18"),
        ("data.batch_size=3", "batch_size=3"),
        ("federation.rho=0.3", "rho=0.3"),
        ("secure=masked noise=2", "privacy=client model.norm=group privacy.noise_multiplier=2"),
        ("data.model=cnn", "model=cnn"),
        ("privacy=example method=fedavg model.norm=group noise=2", "privacy.noise_multiplier=2"),
        ("strategy=dp_fixed model.norm=group noise=2", "strategy.noise_multiplier=2"),
        ("strategy=dp_fixed model.norm=group strategy.noise=2", "strategy.noise_multiplier=2"),
        ("strategy=dp_fixed model.norm=group noise=0", "strategy=fedavg"),
    ],
)
def test_one_word_is_meant_and_is_accepted(words: str, cure: str) -> None:
    assert answer(words) == f"write {cure}"
    assert compose_experiment([*shlex.split(words)[:-1], *shlex.split(cure)])


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("method=fedavg mu=1", f"mu belongs to {METHODS_WITH_MU}"),
        (
            "method=fedavg method.mu=1",
            f"method=fedavg has no settings; mu belongs to {METHODS_WITH_MU}",
        ),
        ("tau=1", "tau belongs to method=fedlc|fedntd|moon, strategy=fedadagrad|fedadam|fedyogi"),
        (
            "method=moon+fedprox mu=1",
            "write method.proximal_weight=1, or method.contrastive_weight=1",
        ),
        ("method=feddecorr beta=1", "write method.decorrelation_weight=1, or alpha=1"),
        ("strategy=fedadam eta=0.1", "write strategy.server_lr=0.1, or optim.lr=0.1"),
        (
            "method.alpha=1",
            (
                "method=univarfl has energy_weight, variance_weight, energy_eps, hinge; alpha "
                "belongs to method=feddyn|fedrs"
            ),
        ),
        ("strategy.lr=0.1", "strategy=fedavg has weighting"),
        ("data.alpha=1", "write alpha=1"),
        ("noise=1", FOR_NOISE.format("1")),
        ("noise_multiplier=0.5", FOR_NOISE.format("0.5")),
        ("noise=true", FOR_NOISE.format("1.0")),
        (
            "epsilon=8",
            REPORTED
            + FOR_NOISE.format("1.0")
            + "; for the method's epsilon write method.energy_eps=8",
        ),
        ("privacy.epsilon=8", REPORTED + FOR_NOISE.format("1.0")),
        (
            "noise=0",
            "leave it out; nothing adds noise without privacy=example or strategy=dp_fixed",
        ),
        ("rate=0.5", "write rho=0.5, or optim.lr=0.5"),
        (
            "sweep=univarfl_tabel1",
            (
                "write univarfl sweep sweep=univarfl_table1, or in Python "
                'univarfl.sweep(sweep="univarfl_table1")'
            ),
        ),
        ("protocol=none", "choose one of fedalign, feduv, paper"),
        ("privacy=local", "choose one of client, example, none"),
        ("experiment=mnist", "mnist is not an experiment; write data=mnist"),
        ("data=niid_bench", "niid_bench is not a data; write experiment=niid_bench"),
        ("network=5", f"write model=NAME, with one of {', '.join(choices()['model'])}"),
    ],
)
def test_several_words_may_be_meant(words: str, line: str) -> None:
    assert answer(words) == line


@pytest.mark.parametrize("word", ["noise=1", "privacy.epsilon=8", "method=scaffold noise=1"])
@pytest.mark.parametrize("place", ["clients", "server"])
def test_both_words_for_noise_are_accepted(word: str, place: str) -> None:
    clients, server = re.split(" for noise at the clients, or ", answer(word))
    found = {"clients": clients.rpartition("write ")[2], "server": server}[place]
    experiment = compose_experiment(found.removesuffix(" at the server").split())
    assert experiment.privacy.private == (place == "clients")
    assert strategy_of(experiment).private == (place == "server")


def test_every_word_that_can_be_switched_off_has_an_opposite() -> None:
    switches = {word.meaning: word.other for word in vocabulary() if word.other}
    assert len(switches) >= 11
    for meaning, other in switches.items():
        opposite = f"{meaning.partition('=')[0]}={other}"
        assert compose_settings([meaning]) != compose_settings([opposite])


def test_the_symbols_of_a_choice_are_keys_of_its_group() -> None:
    assert sum(word.choice.startswith("method=") for word in symbols()) >= 18
    assert {word[:2] for word in symbols() if word.choice == "method=univarfl"} == {
        ("mu", "method.energy_weight"), ("lambda", "method.variance_weight"),
        ("epsilon", "method.energy_eps"),
    }  # fmt: skip
    assert {word.meaning for word in symbols()} <= set(every_key())
    assert not any(word.choice == "strategy=dp_fixed" for word in symbols())


@pytest.mark.parametrize(
    ("value", "used"), [("0.5", "0.5"), ("1e-3", "1e-3"), ("0.5x", "1.0"), ("2 3", "1.0")]
)
def test_a_value_is_suggested_again_only_if_all_of_it_is_a_number(value: str, used: str) -> None:
    config = {"privacy": {"unit": "example"}}
    answers = {typed: unknown_key("noise", typed, config).allowed for typed in (value, used)}
    assert answers[value] == answers[used] != ""
    assert f"={used}" in answers[value]
    assert "0.5x" not in answers[value]
