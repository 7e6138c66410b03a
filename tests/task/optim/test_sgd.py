"""`LocalSgd` compared with PyTorch's class, and without the import of the compiler."""

import subprocess
import sys
from typing import Any

import pytest
import torch

from server_app.config.composition import compose_experiment
from task.config import Sgd
from task.errors import ConfigError
from task.optim.base import LocalOptimizer
from task.optim.sgd import LocalSgd


def network() -> torch.nn.Sequential:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))


def sgd_settings(*words: str) -> Sgd:
    found = compose_experiment(list(words)).optim
    assert isinstance(found, Sgd)
    return found


def take(
    step: int,
    ours: tuple[torch.nn.Sequential, LocalOptimizer[Any]],
    theirs: tuple[torch.nn.Sequential, torch.optim.Optimizer],
    most: float | None,
) -> None:
    """Take one step with our optimizer and PyTorch's class; in step 1 one layer has no gradient."""
    ours[1].clear_gradients()
    theirs[1].zero_grad()
    x = torch.randn(5, 3)
    for model in (ours[0], theirs[0]):
        out = model[2](x.new_ones(5, 4)) if step == 1 else model(x)
        out.square().sum().backward()
    if most is not None:
        torch.nn.utils.clip_grad_norm_(theirs[0].parameters(), most)
    ours[1].step()
    theirs[1].step()


@pytest.mark.parametrize(
    ("momentum", "weight_decay", "nesterov", "most"),
    [
        (0.0, 0.0, False, None), (0.9, 1e-2, False, None), (0.9, 0.0, True, None),
        (0.9, 0.0, False, 0.5),
    ],
)  # fmt: skip
def test_it_takes_the_steps_of_pytorchs_class(
    momentum: float, weight_decay: float, nesterov: bool, most: float | None
) -> None:
    """In the second step one layer has no gradient: neither it nor its momentum changes."""
    ours, theirs = network(), network()
    settings = Sgd(
        lr=0.1, schedule="constant", warmup_rounds=0, backbone_scale=1.0, momentum=momentum,
        keep_momentum=False,
        weight_decay=weight_decay, nesterov=nesterov, max_gradient_norm=most,
    )  # fmt: skip
    stepper = LocalSgd(dict(ours.named_parameters()), settings)
    reference = torch.optim.SGD(
        theirs.parameters(), 0.1, momentum, weight_decay=weight_decay, nesterov=nesterov
    )
    for step in range(4):
        take(step, (ours, stepper), (theirs, reference), most)
        assert all(map(torch.equal, ours.state_dict().values(), theirs.state_dict().values()))
    assert stepper.state() == {}  # keep_momentum=False


def test_the_fused_kernel_allows_a_parameter_without_a_first_gradient() -> None:
    """As on a GPU, with a block that is dropped in the first batch."""
    ours, theirs = network(), network()
    settings = sgd_settings()
    fused, plain = (
        LocalSgd(dict(ours.named_parameters()), settings),
        LocalSgd(dict(theirs.named_parameters()), settings),
    )
    fused._fused = True
    for step in range(3):
        x = torch.randn(5, 3)
        for model, stepper in ((ours, fused), (theirs, plain)):
            stepper.clear_gradients()
            out = model[2](x.new_ones(5, 4)) if step == 0 else model(x)
            out.square().sum().backward()
            stepper.step()
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.allclose(one, other, atol=1e-6)


def test_momentum_can_be_taken_out_and_put_back() -> None:
    """Steps with another client's in between are those of an optimizer that never stopped."""
    ours, theirs = network(), network()
    settings = sgd_settings("optim.keep_momentum=true")
    stepper = LocalSgd(dict(ours.named_parameters()), settings)
    reference = torch.optim.SGD(theirs.parameters(), 0.01, 0.9, weight_decay=1e-5)
    for _ in range(3):
        x = torch.randn(5, 3)
        for model in (ours, theirs):
            model.zero_grad()
            model(x).square().sum().backward()
        stepper.step()
        reference.step()
        kept = {name: value.clone() for name, value in stepper.state().items()}
        stepper.begin({name: torch.ones_like(value) for name, value in kept.items()})
        stepper.begin(kept)
    assert all(map(torch.equal, ours.state_dict().values(), theirs.state_dict().values()))


def test_training_does_not_import_the_compiler() -> None:
    """The import takes seconds, in every worker and for every message of a deployed site."""
    program = """
import sys
from server_app.config.composition import compose_experiment
from task.training.worker import Worker
worker = Worker(compose_experiment(["num_clients=4", "local_epochs=1"]).local())
worker.train(worker.initial_weights(), 1, 0)
worker.test(worker.initial_weights())
sys.exit("torch._dynamo" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_the_cosine_is_that_of_pytorchs_scheduler_with_a_step_per_round() -> None:
    settings = compose_experiment(["optim.schedule=cosine"]).optim
    theirs = torch.optim.SGD(network().parameters(), settings.lr)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(theirs, T_max=7)
    for server_round in range(1, 8):
        assert settings.rate(server_round, 7) == pytest.approx(scheduler.get_last_lr()[0])
        theirs.step()
        scheduler.step()
    assert settings.rate(7, 7) > 0


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
@pytest.mark.parametrize("schedule", ["constant", "cosine"])
def test_the_warm_up_is_that_of_pytorchs_schedulers(optimizer: str, schedule: str) -> None:
    """Two of seven rounds have 1/3 and 2/3 of the rate; the cosine takes the other five."""
    words = [f"optim={optimizer}", f"optim.schedule={schedule}", "optim.warmup_rounds=2"]
    settings = compose_experiment([*words, "rounds=7"]).optim
    theirs = torch.optim.SGD(network().parameters(), settings.lr)
    warm = torch.optim.lr_scheduler.LinearLR(theirs, start_factor=1 / 3, total_iters=2)
    rest = {
        "constant": torch.optim.lr_scheduler.ConstantLR(theirs, factor=1, total_iters=0),
        "cosine": torch.optim.lr_scheduler.CosineAnnealingLR(theirs, T_max=5),
    }[schedule]
    scheduler = torch.optim.lr_scheduler.SequentialLR(theirs, [warm, rest], milestones=[2])
    for server_round in range(1, 8):
        assert settings.rate(server_round, 7) == pytest.approx(scheduler.get_last_lr()[0])
        theirs.step()
        scheduler.step()
    assert settings.varies
    assert not compose_experiment([]).optim.varies


def test_a_warm_up_as_long_as_the_run_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"optim.warmup_rounds=3: must be below rounds=3"):
        compose_experiment(["rounds=3", "optim.warmup_rounds=3"])
