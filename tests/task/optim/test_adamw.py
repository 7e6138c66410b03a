"""`LocalAdamW` compared with PyTorch's class, in the loop, and where it is refused."""

import pytest
import torch

from server_app.config.composition import compose_experiment
from task.config import AdamW
from task.errors import ConfigError
from task.optim.adamw import LocalAdamW
from task.optim.base import MOMENTUM, SECOND_MOMENT, STEPS
from task.optim.parameters import trained_parameters
from task.training.worker import Worker
from tests.conftest import LENET, Train, sha256
from tests.task.optim.test_sgd import network, take
from tests.task.training.test_loop import same

WORDS = ("optim=adamw", *LENET, "num_clients=8", "local_epochs=1", "method=fedavg")


def settings(*words: str) -> AdamW:
    found = compose_experiment(["optim=adamw", *words]).optim
    assert isinstance(found, AdamW)
    return found


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("most", [None, 0.5])
def test_it_takes_the_steps_of_pytorchs_class(decay: float, most: float | None) -> None:
    """In the second step one layer has no gradient: its moments and steps stay as they are."""
    ours, theirs = network(), network()
    how = settings(
        "optim.lr=0.02", "optim.beta_1=0.8", "optim.beta_2=0.95", "optim.eps=1e-4",
        f"optim.weight_decay={decay}",
    ).model_copy(update={"max_gradient_norm": most})  # fmt: skip
    stepper = LocalAdamW(dict(ours.named_parameters()), how)
    reference = torch.optim.AdamW(
        theirs.parameters(), 0.02, betas=(0.8, 0.95), eps=1e-4, weight_decay=decay
    )
    for step in range(5):
        take(step, (ours, stepper), (theirs, reference), most)
        assert all(map(torch.equal, ours.state_dict().values(), theirs.state_dict().values()))
    assert stepper.state() == {}  # keep_momentum=False


def test_a_step_is_the_papers() -> None:
    """w = 2 with gradients 1 and 3, by hand: moments 0.3, 0.99; decay is apart from both."""
    w = torch.nn.Parameter(torch.tensor(2.0, dtype=torch.float64))
    how = settings("optim.lr=0.1", "optim.weight_decay=0.5", "optim.beta_1=0.5", "optim.beta_2=0.9")
    stepper = LocalAdamW({"w": w}, how)
    found = []
    for gradient in (1.0, 3.0):
        w.grad = torch.tensor(gradient, dtype=torch.float64)
        stepper.step()
        found.append(w.item())
    first = 2.0 * (1 - 0.1 * 0.5) - 0.1 * 1.0
    mean, square = (0.5 * 0.5 + 0.5 * 3) / 0.75, (0.9 * 0.1 + 0.1 * 9) / 0.19
    assert found == pytest.approx([first, first * 0.95 - 0.1 * mean / square**0.5], abs=1e-7)


def test_moments_can_be_taken_out_and_put_back() -> None:
    ours, theirs = network(), network()
    stepper = LocalAdamW(dict(ours.named_parameters()), settings("optim.keep_momentum=true"))
    reference = torch.optim.AdamW(theirs.parameters(), 0.001)
    for _ in range(3):
        x = torch.randn(5, 3)
        for model in (ours, theirs):
            model.zero_grad()
            model(x).square().sum().backward()
        stepper.step()
        reference.step()
        kept = {name: value.clone() for name, value in stepper.state().items()}
        stepper.begin({name: torch.ones_like(value) for name, value in kept.items()})
        stepper.step()  # changes neither the parameters' copies below nor what was kept
        ours.load_state_dict(theirs.state_dict())
        stepper.begin(kept)
    assert all(map(torch.equal, ours.state_dict().values(), theirs.state_dict().values()))


def test_the_fused_kernel_takes_nearly_the_same_steps() -> None:
    """As on a GPU, with a block that is dropped in the first batch."""
    ours, theirs = network(), network()
    fused, plain = (LocalAdamW(dict(m.named_parameters()), settings()) for m in (ours, theirs))
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


def test_moments_start_from_zero_in_each_training_unless_they_are_kept() -> None:
    fresh, kept = (
        Worker(compose_experiment([*WORDS, *more]).local())
        for more in ((), ("optim.keep_momentum=true",))
    )
    weights = fresh.initial_weights()
    first = fresh.train(weights, 1, 0)
    assert first.state == {}
    state = kept.train(weights, 1, 0).state
    names = trained_parameters(kept.model)
    assert set(state) == {kind + n for kind in (MOMENTUM, SECOND_MOMENT, STEPS) for n in names}
    fresh.train(weights, 1, 1)
    second, alone = (fresh.train(weights, 2, 0).weights, kept.train(weights, 2, 0).weights)
    assert same(second, alone)
    kept.train(weights, 1, 1)
    continued = kept.train(weights, 2, 0, state)
    assert not same(continued.weights, alone)
    assert same(continued.weights, kept.train(weights, 2, 0, state).weights)  # state is unchanged
    assert all(
        continued.state[STEPS + name] == 2 * value
        for name, value in ((n, state[STEPS + n]) for n in names)
    )


def test_any_number_of_workers_gives_the_same_bits(train: Train) -> None:
    words = ("optim=adamw", "optim.lr=0.01", "optim.keep_momentum=true", "rho=0.5", "rounds=3")
    assert sha256(train(*words)) == sha256(train(*words, "federation.workers=2"))


@pytest.mark.slow
def test_flowers_engine_gives_the_same_bits(train: Train) -> None:
    words = ("optim=adamw", "optim.lr=0.01", "optim.keep_momentum=true")
    assert sha256(train(*words)) == sha256(train(*words, "engine=flower"))


@pytest.mark.parametrize("method", ["scaffold", "fednova", "scaffold+fedprox"])
def test_methods_that_add_up_gradients_are_refused(method: str) -> None:
    with pytest.raises(
        ConfigError, match=r"optim=adamw: method=.* sums of gradients.*leave it out"
    ):
        compose_experiment(["optim=adamw", f"method={method}"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("optim.momentum=0.5",), "optim.momentum=0.5: unknown key.*belongs to optim=sgd"),
        (("optim.beta_1=1",), "optim.beta_1=1: must be less than 1"),
        (("optim.eps=0",), "optim.eps=0: must be greater than 0"),
        (("secure=masked", "optim.keep_momentum=true"), "optim.keep_momentum=True: a coordinator"),
    ],
)
def test_a_value_out_of_range_is_refused(words: tuple[str, ...], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        compose_experiment(["optim=adamw", *words])
