"""From words to a checked experiment, or to one line that says what is wrong."""

import shlex
import shutil
from pathlib import Path

import pytest

from server_app.config.choices import CONF, choices
from server_app.config.composition import compose_experiment
from task.errors import ConfigError
from tests.conftest import PARTS, model_for, needs_of, with_slow

METHODS = ", ".join(choices()["method"])
MODELS = ", ".join(choices()["model"])
DATA = ", ".join(choices()["data"])
STRATEGIES = ", ".join(choices()["strategy"])
CHOICES = [f"{group}={name}" for group, names in choices().items() for name in names]
COMPOSED_ELSEWHERE = ("method=", "strategy=", "experiment=")  # each choice by a quick test
SITES = ["partition.names=[b,a]", "data=folder", "data.classes=[x,y]"]
VECTORS = ["data=vectors", f"data.schema={PARTS / 'schema.yaml'}"]
NEEDS = {
    "data=vectors": VECTORS,
    "model=mlp": VECTORS,
    "data=hub": ["data.repo=OWNER/NAME"],
    "participation=available": ["clock=virtual"],
    "participation=deadline": ["clock=virtual"],
    "participation=tiers": ["clock=virtual", "rho=0.2"],
    "partition=sites": SITES,
    "task=multilabel": ["method=fedavg", "data=table", "data.classes=[x,y]"],
    "privacy=client": ["secure=masked", "model.norm=group"],
    "privacy=example": ["method=fedavg", "model.norm=group"],
}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["privacy.noise_multiplier=4"], "has no effect without noise; add privacy=example"),
        (["privacy.noise_multiplier=1"], "has no effect without noise; add privacy=example"),
        (["model=linear", "method.energy_weight=5"], "has no layers before the classifier"),
        (
            ["strategy=fedbuff", "clock=virtual", "federation.attempts=3"],
            "which repeats no round",
        ),
        (["privacy.clipping_norm=0.5"], "has no effect without noise; add privacy=example"),
        (
            ["strategy=dp_fixed", "model.norm=group", "privacy.delta=1e-7"],
            "privacy.delta=1e-7: .* noise at the server has its settings under strategy",
        ),
        (["partition=iid", "alpha=0.1"], "alpha=0.1: has no effect without partition=dirichlet"),
        (["alpha=0.1", "partition.alpha=1"], "alpha=0.1: has no effect with partition.alpha"),
        (
            ["privacy=example", "method=fedavg", "model.norm=group", "data.validation_share=0.3"],
            "has no effect with privacy, where clients hold no images out",
        ),
        (
            ["model.pan_amplitude=0.5"],
            r"has no effect without model\.pan=add or model\.pan=multiply",
        ),
        (["model.projector=none", "model.features=9"], "the pooled maps are the features"),
        (
            ["data=hub", "data.repo=a", "data.test_split=a", "data.test_share=0.3"],
            "which names the test images",
        ),
        ([*SITES, "partition=sites", "federation.workers=7"], "each site is one worker"),
        (
            [*SITES, "partition=sites", "federation.message_megabytes=2000"],
            "each site sends its own reply",
        ),
        (["guard=drop", "rho=0.1"], "needs at least 3 updates together, but there are 1"),
        (
            ["guard=drop", "strategy=fedbuff", "strategy.buffer_size=2", "clock=virtual"],
            "needs at least 3 updates together, but there are 2",
        ),
        (["method=fednova", "watch.models_every=1"], "they send scaled updates instead"),
        (["method=fednova", "after=feddf"], "they send scaled updates instead"),
        (["guard=drop", "method=fednova"], "norms of updates cannot be compared"),
        (["guard=drop", "method=fedexp"], "norms of updates cannot be compared"),
    ],
)
def test_a_setting_that_would_have_no_effect_is_refused(words: list[str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        compose_experiment(words)


def test_ccvr_limits_the_replies_of_sites_too() -> None:
    words = [*SITES, "partition=sites", "method=fedavg", "after=ccvr"]
    found = compose_experiment([*words, "federation.message_megabytes=2000"])
    assert found.federation.message_megabytes == 2000


@pytest.mark.parametrize(
    "word", with_slow(CHOICES, {word for word in CHOICES if word.startswith(COMPOSED_ELSEWHERE)})
)
def test_every_choice_composes(word: str) -> None:
    assert compose_experiment([word, *needs(word)])


def needs(word: str) -> list[str]:
    """What a choice needs beside it."""
    group, _, name = word.partition("=")
    if group == "method":
        return model_for(name)
    return needs_of(name) if group == "strategy" else NEEDS.get(word, [])


def test_methods_combine_in_any_order_under_one_name() -> None:
    one, other = (
        compose_experiment([f"method={words}", "method.proximal_weight=0.2"])
        for words in ("univarfl+fedprox", "fedprox+univarfl")
    )
    assert one == other
    assert one.method["name"] == "fedprox+univarfl"
    assert one.method["proximal_weight"] == 0.2
    assert one.method["energy_weight"] == 0.5
    spaced = compose_experiment(["method='univarfl + fedprox'", "method.proximal_weight=0.2"])
    assert spaced == one


def test_the_last_method_wins() -> None:
    words = ["method=fedprox+univarfl", "method=moon"]
    assert compose_experiment(words) == compose_experiment(["method=moon"])


def test_the_defaults_are_the_documented_ones() -> None:
    experiment = compose_experiment([])
    shown = experiment.model_dump(
        include={"alpha", "rho", "rounds", "num_clients", "local_epochs", "batch_size", "seed"}
    )
    assert shown == {
        "alpha": 0.3, "rho": 1.0, "rounds": 12, "num_clients": 10, "local_epochs": 5,
        "batch_size": 32, "seed": 0,
    }  # fmt: skip
    assert (experiment.data["name"], experiment.method["name"]) == ("digits", "univarfl")


def test_what_is_typed_wins_over_what_a_data_set_brings() -> None:
    experiment = compose_experiment(["data=digits", "num_clients=3", "partition=iid"])
    assert (experiment.num_clients, experiment.partition["name"]) == (3, "iid")
    assert compose_experiment(["alpha=2"]).partition["alpha"] == 2


def test_clients_are_told_nothing_that_only_the_server_needs() -> None:
    told = compose_experiment(["output_dir=/somewhere"]).local().model_dump()
    assert not {"output_dir", "rho", "strategy", "federation", "engine"} & told.keys()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("method=foo", f"method=foo: choose one of {METHODS}, or join several by +"),
        ("data=foo", f"data=foo: choose one of {DATA}"),
        ("roundz=3", "roundz=3: unknown key; did you mean rounds=3?"),
        (
            "optim.nesterov=true optim.momentum=0",
            "optim.nesterov=True: needs optim.momentum above 0",
        ),
        (
            "method=stochdepth model=resnet56 runtime=compiled",
            (
                "runtime.compiled=True: method=stochdepth changes the network while it trains, and "
                "every variant would be compiled again; leave it out"
            ),
        ),
        ("xyzzy=3", "xyzzy=3: unknown key; 'univarfl list keys' shows every key"),
        ("+foo=1", "foo=1: unknown key; 'univarfl list keys' shows every key"),
        (
            "method.foo=1",
            (
                "method.foo=1: unknown key; method=univarfl has energy_weight, variance_weight, "
                "energy_eps, hinge"
            ),
        ),
        (
            "method=fedavg method.energy_weight=1",
            (
                "method.energy_weight=1: unknown key; method=fedavg has no settings; "
                "method.energy_weight belongs to method=univarfl"
            ),
        ),
        (
            "optim.foo=1",
            (
                "optim.foo=1: unknown key; optim has lr, schedule, warmup_rounds, "
                "backbone_scale, momentum, keep_momentum, weight_decay, nesterov, max_gradient_norm"
            ),
        ),
        (
            "+method.foo=1",
            (
                "method.foo=1: unknown key; method=univarfl has energy_weight, variance_weight, "
                "energy_eps, hinge"
            ),
        ),
        ("method.name=os", f"method.name=os: choose one of {METHODS}"),
        ("model.name=../cnn", "model.name=../cnn: write model=cnn"),
        ("method.name=fedavg", "method.name=fedavg: write method=fedavg"),
        ("data.name=PACS", "data.name=PACS: write data=pacs"),
        (
            "watch=false",
            (
                "watch=false: must be set by watch.tensorboard, watch.mlflow, watch.models_every, "
                "as in watch.tensorboard=false"
            ),
        ),
        ("watch.mlflow=5", """watch.mlflow=5: must be text; write "watch.mlflow='5'\""""),
        ("run_id=[a]", "run_id=['a']: must be text"),
        ("method.name=base", f"method.name=base: choose one of {METHODS}"),
        ("model.name=layers", f"model.name=layers: choose one of {MODELS}"),
        ("method=moon+foo", f"method=moon+foo: choose one of {METHODS}, or join several by +"),
        ("method=moon+moon", "method=moon+moon: names a method twice"),
        ("method=moon+", f"method=moon+: choose one of {METHODS}, or join several by +"),
        ("method=++", f"method=++: choose one of {METHODS}, or join several by +"),
        ("method=null", f"method=null: choose one of {METHODS}, or join several by +"),
        (
            "method=[moon,fedprox]",
            (
                "method=[moon,fedprox]: write method=moon+fedprox; a sweep makes a run for each "
                "of several"
            ),
        ),
        (
            "method=moon+fedavg",
            "method=fedavg+moon: every method extends fedavg already; leave it out",
        ),
        (
            "method=scaffold+feddyn",
            (
                "method=feddyn+scaffold: more than one of them corrects the server's weights; "
                "choose one"
            ),
        ),
        (
            "method=univarfl+feduv",
            "method=feduv+univarfl: they share the term l_v; choose one of them",
        ),
        ("method=moon+fedprox method.temperature=0", "method.temperature=0.0: must be above 0"),
        (
            "method=moon+fedprox method.foo=1",
            (
                "method.foo=1: unknown key; method=fedprox+moon has proximal_weight, "
                "contrastive_weight, temperature"
            ),
        ),
        ("model.norm=layer", "model.norm=layer: must be 'batch', 'fixed' or 'group'"),
        (
            "model.norm=group model.features=100",
            "model.features=100: must be a multiple of 8 with model.norm=group",
        ),
        (
            "strategy.name=foo",
            f"strategy.name=foo: choose one of {STRATEGIES}",
        ),
        ("alpha=0", "alpha=0: must be greater than 0"),
        ("alpha=-1", "alpha=-1: must be greater than 0"),
        ("alpha=nan", "alpha=nan: must be a finite number"),
        ("alpha=abc", "alpha=abc: must be a valid number"),
        ("alpha=true", "alpha=True: must be a valid number"),
        ("rho=0", "rho=0: must be greater than 0"),
        ("rho=1.01", "rho=1.01: must be less than or equal to 1"),
        ("rounds=0", "rounds=0: must be greater than or equal to 1"),
        ("rounds=1.5", "rounds=1.5: must be a valid integer"),
        ("rounds=null", "rounds=None: must be a valid integer"),
        ("batch_size=1", "batch_size=1: must be greater than or equal to 2"),
        ("seed=-1", "seed=-1: must be greater than or equal to 0"),
        (
            "seed=0,1",
            "seed=0,1: must be one value; for a run of each value: univarfl sweep seed=0,1",
        ),
        ("device=gpu", "device=gpu: write device=cuda"),
        ("method.energy_weight=-1", "method.energy_weight=-1.0: must be at least 0"),
        (
            "method.energy_eps=0",
            "method.energy_eps=0.0: must be above 0, or null for the default of the network",
        ),
        ("method.energy_eps=x", "method.energy_eps=x: must be a valid number"),
        ("data.image_size=4", "data.image_size=4: must be from 8 to 1024"),
        (
            "partition.min_images=2",
            (
                "partition.min_images=2: must be at least 3: two images to train on and one for "
                "validation"
            ),
        ),
        (
            "partition=sites partition.names=null",
            "partition.names=None: must be a list, as in [a,b]",
        ),
        (
            "partition=sites partition.names=[true]",
            """partition.names.0=True: must be text; write "partition.names=['true']\"""",
        ),
        ("strategy.weighting=x", "strategy.weighting=x: must be 'examples' or 'uniform'"),
        ("optim.lr=0", "optim.lr=0: must be greater than 0"),
        ("federation.workers=0", "federation.workers=0: must be greater than or equal to 1"),
        (
            "run_id=../x",
            (
                "run_id=../x: must be letters, digits, '.', '_', '+' and '-', and begin with a "
                "letter or digit"
            ),
        ),
        ("rounds", "override=rounds: write rounds=VALUE"),
        (
            "'rounds=[1'",
            (
                "override=rounds=[1: cannot be read; quote the whole word, and each name with a "
                """comma or a quote, as in "data.classes=['a, b','c']\""""
            ),
        ),
    ],
)
def test_bad_input_is_one_line_with_key_value_and_what_is_allowed(words: str, line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        compose_experiment(shlex.split(words))
    assert str(caught.value) == line


@pytest.mark.parametrize("name", ["20250101", "1_000", "1e5", "true", "'7'"])
@pytest.mark.parametrize("key", ["run_id", "output_dir"])
def test_a_name_may_look_like_a_number(key: str, name: str) -> None:
    found = compose_experiment([f"{key}={name}"])
    assert getattr(found, key) == name.strip("'")


def test_the_cure_for_a_number_in_place_of_text_is_accepted_by_a_shell() -> None:
    words = [*SITES[1:], "partition=sites"]
    with pytest.raises(ConfigError) as caught:
        compose_experiment([*words, "partition.names=[a,true]"])
    cure = shlex.split(str(caught.value).rpartition("write ")[2])
    assert compose_experiment([*words, *cure]).partition["names"] == ["a", "true"]


@pytest.mark.parametrize(
    "path", ["/a/Pr\u00fcfung", "/a/x(1)", "/a/with space, and=more", "/a/it's"]
)
def test_a_path_is_taken_as_it_is_typed(path: str) -> None:
    assert compose_experiment(["data=folder", f"data.root={path}"]).data["root"] == path


def test_a_download_without_a_root_goes_where_sweeps_look(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["data=cifar10", "data.download=true"]
    assert compose_experiment(words).data["root"] == str(Path.cwd() / "data" / "cifar10")
    monkeypatch.setenv("DATA", "/disk")
    assert compose_experiment(words).data["root"] == "/disk/cifar10"
    assert compose_experiment([*words, "data.root=/x"]).data["root"] == "/x"
    assert compose_experiment(["data=cifar10"]).data["root"] is None


def test_a_path_may_begin_at_home() -> None:
    root = compose_experiment(["data=folder", "data.root=~/images"]).data["root"]
    assert root == str(Path.home() / "images")


def test_an_edited_file_is_read_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    conf = tmp_path / "conf"
    shutil.copytree(CONF, conf)
    for name in ("choices", "chosen_files"):
        monkeypatch.setattr(f"server_app.config.{name}.CONF", conf)
    assert compose_experiment(["optim.lr=0.1"]).optim.momentum == 0.9
    assert compose_experiment([]).optim.lr != 0.1
    file = conf / "optim" / "sgd.yaml"
    file.write_text(file.read_text().replace("momentum: 0.9", "momentum: 0.25"))
    (conf / "optim" / ".#sgd.yaml").symlink_to("nobody@nowhere")  # an editor's lock
    assert compose_experiment([]).optim.momentum == 0.25


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["published.0=1"], "published.0=1: cannot be set: list index out of range"),
        (["secure=rounded", f"+secure.start={'0' * 64}"], "follows from the file of model.weights"),
    ],
)
def test_a_value_that_cannot_be_set_names_its_key(words: list[str], line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        compose_experiment(words)
    assert line in str(caught.value)
