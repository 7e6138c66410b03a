"""FixBN: from a round on, clients train with the global statistics of batch norm."""

from pathlib import Path

import pytest
import torch
from torch import nn

from server_app.config.composition import compose_experiment
from task.errors import ConfigError
from task.models.layers.norm import batch_norm_layers, fix_statistics
from task.training.worker import Worker
from tests.conftest import CNN, SMALL_CNN, Train, sha256

FIXED = ("model.norm=fixed", "rounds=4")


def test_a_fixed_layer_normalises_with_its_statistics_and_keeps_them() -> None:
    """Compared with the formula in float64."""
    torch.manual_seed(0)
    layer = nn.BatchNorm2d(3)
    model = nn.Sequential(layer)
    assert layer.running_mean is not None
    assert layer.running_var is not None
    layer.running_mean.normal_()
    layer.running_var.uniform_(0.5, 2)
    nn.init.normal_(layer.weight)
    nn.init.normal_(layer.bias)
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    x = torch.randn(5, 3, 4, 4)
    fix_statistics(model.train())
    found = model(x)
    wide = {name: value.double().view(1, -1, 1, 1) for name, value in before.items()}
    z = (x.double() - wide["running_mean"]) / (wide["running_var"] + layer.eps).sqrt()
    assert torch.allclose(found.double(), z * wide["weight"] + wide["bias"], atol=1e-6)
    assert all(before[name].equal(value) for name, value in layer.state_dict().items())
    found.sum().backward()
    assert layer.weight.grad is not None


def test_from_the_middle_of_the_run_a_client_keeps_the_statistics(
    cache_of_all_digits: Path,
) -> None:
    worker = Worker(compose_experiment([*SMALL_CNN, *FIXED, "optim.lr=0.001"]).local())
    start = worker.initial_weights()
    layers = batch_norm_layers(worker.model)
    for server_round, fixed in ((1, False), (2, False), (3, True), (4, True)):
        trained = worker.train(start, server_round, 0).weights
        for layer in layers:
            same = trained[f"{layer}.running_mean"].equal(start[f"{layer}.running_mean"])
            assert same == fixed
        assert not trained["classifier.weight"].equal(start["classifier.weight"])


@pytest.mark.parametrize("share", [0.25, 0.75])
def test_the_share_decides_when(cache_of_all_digits: Path, share: float) -> None:
    network = compose_experiment([*CNN, *FIXED, f"model.fixed_after={share}"]).network()
    found = [network.fixes_statistics(server_round, 4) for server_round in range(1, 5)]
    assert found.index(True) == 4 * share


@pytest.mark.slow
def test_bits_do_not_depend_on_workers_and_differ_from_batch_norms(train: Train) -> None:
    words = [*CNN, "rounds=2", "partition=dirichlet", "optim.lr=0.001"]
    one = train(*words, "model.norm=fixed")
    assert sha256(one) == sha256(train(*words, "model.norm=fixed", "federation.workers=2"))
    assert sha256(one) != sha256(train(*words))


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("runtime=graphed method=fedavg", "a recorded step has the batches' statistics"),
        ("strategy=dp_fixed", "the statistics of batch norm reveal the data"),
        ("privacy=example method=fedavg", "its statistics reveal them"),
        ("model.fixed_after=1.0", "must be above 0 and below 1"),
        ("model.norm=batch model.fixed_after=0.3", "has no effect without model.norm=fixed"),
    ],
)
def test_what_does_not_fit_is_refused(words: str, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        compose_experiment(["model.norm=fixed", *words.split()])
    assert reason in str(caught.value)
