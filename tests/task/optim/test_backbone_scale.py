"""Two learning rates: the classifier's, and that of the layers before it."""

from collections import OrderedDict
from typing import Any

import pytest
import torch
from torch import nn

from server_app.config.composition import compose_experiment
from task.errors import ConfigError
from task.registry import named
from task.training.worker import Worker
from tests.conftest import LENET, Train, sha256
from tests.task.training.test_loop import same

PYTORCHS = {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW}


def network() -> nn.Sequential:
    torch.manual_seed(0)
    layers = {"one": nn.Linear(3, 4), "two": nn.ReLU(), "classifier": nn.Linear(4, 2)}
    return nn.Sequential(OrderedDict(layers))


@pytest.mark.parametrize(
    ("optimizer", "words", "options"),
    [
        ("sgd", ["optim.nesterov=true"], {"momentum": 0.9, "nesterov": True, "weight_decay": 1e-5}),
        ("adamw", ["optim.weight_decay=0.1"], {"weight_decay": 0.1}),
    ],
)
def test_the_steps_are_those_of_two_groups_of_pytorchs_class(
    optimizer: str, words: list[str], options: dict[str, Any]
) -> None:
    """Both gradients are clipped by their common norm."""
    given = [f"optim={optimizer}", "optim.lr=0.1", "optim.backbone_scale=0.25", *words]
    settings = compose_experiment([*given, "optim.max_gradient_norm=0.5"]).optim
    ours, theirs = network(), network()
    stepper = named(settings.steps)(dict(ours.named_parameters()), settings)
    groups = [
        {"params": theirs.one.parameters(), "lr": 0.025},  # type: ignore[union-attr]
        {"params": theirs.classifier.parameters()},  # type: ignore[union-attr]
    ]
    reference = PYTORCHS[optimizer](groups, lr=0.1, **options)
    for _ in range(4):
        x = torch.randn(5, 3)
        for model in (ours, theirs):
            model.zero_grad()
            model(x).square().sum().backward()
        nn.utils.clip_grad_norm_(theirs.parameters(), 0.5)
        stepper.step()
        reference.step()
    assert all(map(torch.equal, ours.state_dict().values(), theirs.state_dict().values()))


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_a_tiny_scale_leaves_the_backbone_as_it_is(optimizer: str) -> None:
    words = [*LENET, "method=fedavg", "num_clients=8", "local_epochs=1", f"optim={optimizer}"]
    worker = Worker(compose_experiment([*words, "optim.backbone_scale=1e-30"]).local())
    start = worker.initial_weights()
    trained = worker.train(start, 1, 0).weights
    moved = {name for name in start if not torch.equal(start[name], trained[name])}
    assert moved == {"classifier.weight", "classifier.bias"}


def test_a_scale_of_one_changes_no_bit() -> None:
    words = [*LENET, "method=fedavg", "num_clients=8", "local_epochs=1"]
    plain, one, half = (
        Worker(compose_experiment([*words, *more]).local())
        for more in ([], ["optim.backbone_scale=1"], ["optim.backbone_scale=0.5"])
    )
    weights = plain.initial_weights()
    expected = plain.train(weights, 1, 0).weights
    assert same(one.train(weights, 1, 0).weights, expected)
    assert not same(half.train(weights, 1, 0).weights, expected)


def test_any_number_of_workers_gives_the_same_bits(train: Train) -> None:
    words = ("optim.backbone_scale=0.1", "optim.keep_momentum=true", "rho=0.5", "rounds=3")
    assert sha256(train(*words)) == sha256(train(*words, "federation.workers=2"))


@pytest.mark.parametrize("word", ["model=linear", "tune=head model.projector=none"])
def test_a_scale_of_layers_that_are_not_trained_is_refused(word: str) -> None:
    words = [*word.split(), "method=fedavg"]
    with pytest.raises(ConfigError, match=rf"backbone_scale=0.5: has no effect with {words[0]}"):
        compose_experiment([*words, "optim.backbone_scale=0.5"])
    compose_experiment([*words, "optim.backbone_scale=1"])
    compose_experiment(["tune=head", "method=fedavg", "optim.backbone_scale=0.5"])
